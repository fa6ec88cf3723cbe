"""English: forms of words, phrases and clauses."""

import re

from phrasebook.grammar import Clause, Forms, Language, Node, Phrase, Scene, Word

PLURALS = {"man": "men", "woman": "women", "child": "children"}
PASTS = {
    "bring": "brought",
    "buy": "bought",
    "come": "came",
    "find": "found",
    "fly": "flew",
    "forget": "forgot",
    "forgive": "forgave",
    "give": "gave",
    "go": "went",
    "hear": "heard",
    "hide": "hid",
    "leave": "left",
    "lend": "lent",
    "lose": "lost",
    "meet": "met",
    "pay": "paid",
    "run": "ran",
    "say": "said",
    "see": "saw",
    "sell": "sold",
    "send": "sent",
    "sing": "sang",
    "speak": "spoke",
    "steal": "stole",
    "take": "took",
    "teach": "taught",
    "tell": "told",
    "think": "thought",
    "throw": "threw",
    "understand": "understood",
    "write": "wrote",
}
GENDERS = {"girl": "f", "child": "n"}
"""Where English speaks of someone otherwise than the gender of the other language's noun."""

ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
)
TENS = "_ _ twenty thirty forty fifty sixty seventy eighty ninety"
ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}
COUNTRIES_WITH_ARTICLE = ("United", "Netherlands", "Philippines")


def cardinal(n: int) -> str:
    """The word of a number below a hundred."""
    tens, ones = divmod(n, 10)
    ten = TENS.split()[tens]
    if n < 20:
        return ONES.split()[n]
    return f"{ten}-{ONES.split()[ones]}" if ones else ten


def ordinal(n: int) -> str:
    *front, last = cardinal(n).split("-")
    return "-".join([*front, ORDINALS.get(last) or re.sub("y$", "ie", last) + "th"])


def noun(lemma: str, gender: str) -> Forms:
    plural = PLURALS.get(lemma) or sibilant(lemma) + "s"
    return {"": lemma, "plural": plural, "gender": GENDERS.get(lemma, gender)}


def verb(lemma: str) -> Forms:
    """Only the first word changes: look at, looks at, looked at."""
    base, *rest = lemma.split()
    past = PASTS.get(base) or re.sub("([^aeou])y$", r"\1i", base).removesuffix("e") + "ed"
    forms = {"base": base, "third": sibilant(base) + "s", "past": past}
    return {form: " ".join([word, *rest]) for form, word in forms.items()}


def sibilant(word: str) -> str:
    """What an -s is put to: watche-s, citie-s, book-s."""
    if re.search("(s|x|z|ch|sh|go)$", word):
        return word + "e"
    return re.sub("([^aeou])y$", r"\1ie", word)


def country(name: str) -> Forms:
    return {"": f"the {name}" if name.startswith(COUNTRIES_WITH_ARTICLE) else name}


WANT = verb("want")


class English(Language):
    side = "source"

    def phrase(
        self, phrase: Phrase, form: str, scene: Scene | None = None, denied: bool = False
    ) -> str:
        forms = self.forms(phrase.noun)
        noun = forms["plural" if phrase.plural else ""]
        if form == "bare":
            return noun
        if form == "it":
            return "they" if phrase.plural else "it"
        words = [self.determiner(phrase.determiner, scene)]
        if phrase.adjective is not None:
            words.append(self.forms(phrase.adjective)[""])
        words.append(noun)
        if phrase.relative is not None:
            words.append(self.clause(phrase.relative, "main", head=phrase))
        return " ".join(words).strip()

    def determiner(self, determiner: str | Word | Phrase, scene: Scene | None) -> str:
        if isinstance(determiner, Phrase):
            return self.phrase(determiner, "") + "'s"
        if isinstance(determiner, Word):
            return self.forms(determiner)[""]
        if determiner == "his" and scene is not None:
            return self.possessive(scene.subject)
        return determiner

    def possessive(self, owner: Node | None) -> str:
        assert isinstance(owner, Phrase)
        if owner.plural:
            return "their"
        return {"m": "his", "f": "her", "n": "its"}[self.forms(owner.noun)["gender"]]

    def clause(self, clause: Clause, order: str, head: Phrase | None = None) -> str:
        wording = self.wording(clause.line)
        subject = self.subject(clause, head)
        time = self.text(clause.time) if clause.time else ""
        scene = Scene(clause, subject, "" if order == "front" else time)
        if head is None:
            name = self.render(wording.subject, clause.fillers)
        elif subject is head:
            name = "who"
        else:
            name = "that " + self.render(wording.subject, clause.fillers)
        asked = order == "question"
        auxiliary, main = self.verb_group(clause, self.plural(subject), clause.negated or asked)
        front = [auxiliary, name] if asked else [name, auxiliary]
        words = [*front, "not" if clause.negated else "", main]
        rest = self.render(wording.middle + wording.tail, clause.fillers, scene)
        text = f"{' '.join(words)} {rest}"
        return f"{time}, {text}" if order == "front" else text

    def verb_group(self, clause: Clause, plural: bool, supported: bool) -> tuple[str, str]:
        """The auxiliary that goes before "not" or, in a question, the subject; and the rest."""
        forms, tense = self.forms(self.verb(clause)), clause.tense
        base, lexical = forms["base"], forms
        if tense in ("future", "can", "should"):
            return ("will" if tense == "future" else tense), base
        if base.split()[0] == "be":
            be = ("is", "are") if tense == "present" else ("was", "were")
            return be[plural], base.removeprefix("be").strip()
        tail = ""
        if tense == "want":
            lexical, tail = WANT, f" to {base}"
        if supported:
            do = "did" if tense == "past" else "do" if plural else "does"
            return do, lexical["base"] + tail
        form = "past" if tense == "past" else "base" if plural else "third"
        return "", lexical[form] + tail

    def polish(self, text: str) -> str:
        text = re.sub(r"\s+", " ", text).strip()
        text = re.sub(r" (?=[.,?])", "", text).replace("can not", "cannot")
        return re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", text)
