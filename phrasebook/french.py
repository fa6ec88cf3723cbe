"""French: forms of words, phrases and clauses."""

import re

from phrasebook.grammar import (
    Clause,
    Forms,
    Language,
    Node,
    Phrase,
    Scene,
    Slot,
    Word,
    kind,
)

# By gender and number: m, f, mp, fp.
ARTICLES = {
    "the": {"m": "le", "f": "la", "mp": "les", "fp": "les"},
    "a": {"m": "un", "f": "une"},
    "this": {"m": "ce", "f": "cette", "mp": "ces", "fp": "ces"},
    "his": {"m": "son", "f": "sa", "mp": "ses", "fp": "ses"},
    "their": {"m": "leur", "f": "leur", "mp": "leurs", "fp": "leurs"},
}
PRONOUNS = {"m": "il", "f": "elle", "mp": "ils", "fp": "elles"}

MODALS = {
    "can": ("peut", "peuvent"),
    "want": ("veut", "veulent"),
    "should": ("devrait", "devraient"),
}
AUXILIARIES = {"avoir": ("a", "ont"), "être": ("est", "sont")}

ONES = (
    "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze "
    "seize dix-sept dix-huit dix-neuf"
)
TENS = "_ _ vingt trente quarante cinquante soixante soixante quatre-vingt quatre-vingt"

FEMININE_UNITS = ("livres", "couronnes", "semaines")

VOWEL = "(?!huit|onze|Hongrie|hongrois)[aeiouhàâéèêîôœAEIOUÉÎ]"
"""What a vowel falls silent before. The words named have an h, or an o, that forbids it."""


def cardinal(n: int) -> str:
    """The word of a number below a hundred: vingt et un, soixante et onze, quatre-vingts."""
    tens, ones = divmod(n, 10)
    ten = TENS.split()[tens]
    if n < 20:
        return ONES.split()[n]
    if n == 80:
        return "quatre-vingts"
    ones += 10 * (tens in (7, 9))
    joint = " et " if ones in (1, 11) and tens < 8 else "-"
    return ten + joint + ONES.split()[ones] if ones else ten


def number(n: int) -> Forms:
    """With its gender: vingt et un livres, vingt et une lampes."""
    masculine = cardinal(n)
    feminine = re.sub(r"\bun$", "une", masculine)
    return {"": masculine, "m": masculine, "mp": masculine, "f": feminine, "fp": feminine}


def plural(word: str) -> str:
    if word[-1] in "sx":
        return word
    if word.endswith("al"):
        return word.removesuffix("al") + "aux"
    return word + ("x" if word.endswith("eau") else "s")


def noun(gender: str, singular: str, plural_: str = "") -> Forms:
    return {"": singular, "plural": plural_ or plural(singular), "gender": gender}


def name(name: str, gender: str) -> Forms:
    return {"": name, "gender": gender}


def adjective(masculine: str, feminine: str = "", before_vowel: str = "") -> Forms:
    """rouge; vert verte; <vieux vieille vieil: those with < stand before their noun."""
    stem = masculine.removeprefix("<")
    feminine = feminine or stem.removesuffix("e") + "e"
    return {
        "place": "after" if stem == masculine else "before",
        "m": stem,
        "f": feminine,
        "mp": plural(stem),
        "fp": plural(feminine),
        "vowel": before_vowel or stem,
    }


def verb(infinitive: str, *forms: str) -> Forms:
    """trouver; vendre vend vendent vendu vendra; aller va vont être+allé ira.

    A regular verb needs its infinitive only. A past with a slash is an imperfect, any other one is
    a participle with its auxiliary. A last field "à" says how the verb takes its object.
    """
    *forms_, case = forms if forms[-1:] == ("à",) else (*forms, "")
    if not forms_:
        stem = infinitive.removesuffix("er")
        forms_ = [f"{stem}e", f"{stem}ent", f"{stem}é", f"{stem}era"]
    singular, plural_, past, future = forms_
    participle = past.removeprefix("être+")
    return {
        "infinitive": infinitive,
        "present": f"{singular}/{plural_}",
        "future": f"{future}/{future.removesuffix('a')}ont",
        "past" if "/" in past else "participle": participle,
        "auxiliary": "avoir" if participle == past else "être",
        "case": case,
    }


def pronoun(gender: str, direct: str, indirect: str) -> Forms:
    number = "plural" if gender.endswith("p") else "singular"
    return {"": direct, "à": indirect, "gender": gender[0], "number": number}


def adverb(*words: str) -> Forms:
    return {"": " ".join(words)}


def unit(plural_: str) -> Forms:
    """Units and currencies, which stand after a number."""
    feminine = plural_.startswith(FEMININE_UNITS)
    return {"": plural_, "gender": "f" if feminine else "m", "number": "plural"}


def day(n: int) -> str:
    """As in a date: le premier mars, le deux mars."""
    return "premier" if n == 1 else cardinal(n)


def country(name: str, gender: str) -> Forms:
    """The name with its article, "in" or "to" it, and "from" it; m' begins with a vowel."""
    if gender in ("mp", "fp"):
        article, into, out = "les", "aux", "des"
    elif gender == "m":
        article, into, out = "le", "au", "du"
    else:
        article, into, out = ("la" if gender == "f" else "le"), "en", "de"
    return {
        "": f"{article} {name}",
        "in": f"{into} {name}",
        "from": f"{out} {name}",
        "gender": gender[0],
        "number": "plural" if gender.endswith("p") else "singular",
    }


class French(Language):
    side = "target"

    def gender(self, node: Node | None) -> str:
        """Gender and number, as the keys of the tables have them."""
        if isinstance(node, Phrase):
            return self.forms(node.noun)["gender"] + "p" * node.plural
        if isinstance(node, Word):
            return self.forms(node).get("gender", "m") + "p" * self.plural(node)
        return "m"

    def agreement(self, form: str, other: Node) -> str:
        """An object follows its verb's preposition; adjectives and numbers follow a noun."""
        if isinstance(other, Word) and "case" in other.target:
            return other.target["case"]
        return self.gender(other)

    def phrase(
        self, phrase: Phrase, form: str, scene: Scene | None = None, denied: bool = False
    ) -> str:
        forms, gender = self.forms(phrase.noun), self.gender(phrase)
        noun = forms["plural" if phrase.plural else ""]
        if form == "bare":
            return noun
        if form == "il":
            return PRONOUNS[gender]
        no = denied and not form and scene is not None and scene.clause.negated
        words = [form, self.determiner(phrase, scene, no), noun]
        if phrase.adjective is not None:
            adjective = self.forms(phrase.adjective)
            if adjective["place"] == "after":
                words.append(adjective[gender])
            else:
                vowel = gender == "m" and re.match(VOWEL, noun)
                words.insert(-1, adjective["vowel" if vowel else gender])
        if isinstance(phrase.determiner, Phrase):
            words.append("de " + self.phrase(phrase.determiner, ""))
        if phrase.relative is not None:
            words.append(self.clause(phrase.relative, "main", head=phrase))
        return " ".join(words).strip()

    def determiner(self, phrase: Phrase, scene: Scene | None, no: bool) -> str:
        determiner, gender = phrase.determiner, self.gender(phrase)
        if isinstance(determiner, Phrase):
            determiner = "the"
        if isinstance(determiner, Word):
            return self.forms(determiner)[gender]
        if determiner == "his" and scene is not None and self.plural(scene.subject):
            determiner = "their"
        if determiner == "a" and no:
            return "de"
        return ARTICLES[determiner][gender] if determiner else ""

    def clause(self, clause: Clause, order: str, head: Phrase | None = None) -> str:
        """Subject, verb and the rest, whatever the order; `front` has the time before it all."""
        wording, fillers = self.wording(clause.line), clause.fillers
        subject = self.subject(clause, head)
        time = self.text(clause.time) if clause.time else ""
        scene = Scene(clause, subject, "" if order == "front" else time)
        clitics = [s for s in wording.subject if isinstance(s, Slot) and kind(s.name) == "him"]
        pronoun = self.render(tuple(clitics), fillers)
        direct = fillers[clitics[0].name] if pronoun in ("le", "la", "les") else None
        full = tuple(part for part in wording.subject if part not in clitics)
        if head is None:
            name = self.render(full, fillers)
        elif subject is head:
            name = "qui"
        else:
            name, direct = "que " + self.render(full, fillers), head
        verbs = self.verb_group(clause, subject, pronoun, direct)
        rest = self.render(wording.middle + wording.tail, fillers, scene)
        text = f"{name} {verbs} {rest}"
        return f"{time}, {text}" if order == "front" else text

    def verb_group(
        self, clause: Clause, subject: Node | None, pronoun: str, direct: Node | None
    ) -> str:
        """All verbs, with the negation around the finite one and the pronoun before the right one.

        A participle agrees with the subject after être, and otherwise with a direct object that
        stands before it.
        """
        forms, tense = self.forms(self.verb(clause)), clause.tense
        ne, pas = ("ne", "pas") if clause.negated else ("", "")
        number = self.plural(subject)
        if tense in MODALS:
            words = [ne, MODALS[tense][number], pas, pronoun, forms["infinitive"]]
        elif tense == "past" and "participle" in forms:
            auxiliary = forms["auxiliary"]
            gender = self.gender(subject if auxiliary == "être" else direct)
            participle = forms["participle"] + "e" * ("f" in gender)
            if "p" in gender:
                participle = plural(participle)
            words = [ne, pronoun, AUXILIARIES[auxiliary][number], pas, participle]
        else:
            words = [ne, pronoun, forms[tense].split("/")[number], pas]
        return " ".join(words)

    def polish(self, text: str) -> str:
        text = re.sub(r"\s+", " ", text).strip()
        text = re.sub(r" (?=[.,])", "", text)
        text = re.sub(rf"\b([Ll]|[Dd]|[Nn]|[Qq]u)(?:e|a) (?={VOWEL})", r"\1'", text)
        text = re.sub(rf"\b([Cc])e (?={VOWEL})", r"\1et ", text)
        text = re.sub(rf"\b([Ss])a (?={VOWEL})", r"\1on ", text)
        text = re.sub(r"\b([Ss])i (?=ils?\b)", r"\1'", text)
        for apart, melted in (("de le", "du"), ("de les", "des"), ("à le", "au"), ("à les", "aux")):
            text = re.sub(rf"(?<!\w){apart}\b", melted, text)
        return text
