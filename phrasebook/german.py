"""German: forms of words, phrases and clauses."""

import re

from phrasebook.grammar import Clause, Forms, Language, Node, Phrase, Scene, Word

CASES = ("nom", "acc", "dat", "gen")


def paradigm(masculine: str, feminine: str, neuter: str, plural: str) -> dict[str, Forms]:
    """By gender (plural counts as one) and case; a dash stands for the empty ending."""
    rows = {"m": masculine, "f": feminine, "n": neuter, "p": plural}
    return {
        gender: dict(zip(CASES, row.replace("-", "").split(" "), strict=True))
        for gender, row in rows.items()
    }


DER = paradigm("der den dem des", "die die der der", "das das dem des", "die die den der")
DIESER = paradigm("er en em es", "e e er er", "es es em es", "e e en er")
EIN = paradigm("- en em es", "e e er er", "- - em es", "e e en er")
PRONOUNS = {"m": "er", "f": "sie", "n": "es", "p": "sie"}

WEAK = paradigm("e en en en", "e e en en", "e e en en", "en en en en")
MIXED = paradigm("er en en en", "e e en en", "es es en en", "en en en en")
STRONG = paradigm("er en em en", "e e er er", "es es em en", "e e en er")

AUXILIARIES = {
    "future": ("wird", "werden"),
    "can": ("kann", "können"),
    "want": ("will", "wollen"),
    "should": ("sollte", "sollten"),
    "haben": ("hat", "haben"),
    "sein": ("ist", "sind"),
}

ONES = (
    "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn "
    "fünfzehn sechzehn siebzehn achtzehn neunzehn"
)
TENS = "_ _ zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig"
ORDINALS = {1: "ersten", 3: "dritten", 7: "siebten", 8: "achten"}


def cardinal(n: int) -> str:
    """The word of a number from 2 to 99."""
    tens, ones = divmod(n, 10)
    ten = TENS.split()[tens]
    if n < 20:
        return ONES.split()[n]
    return f"{ONES.split()[ones]}und{ten}" if ones else ten


def ordinal(n: int) -> str:
    """As in a date: am dritten März."""
    return ORDINALS.get(n) or cardinal(n) + ("ten" if n < 20 else "sten")


def noun(gender: str, singular: str, plural: str) -> Forms:
    """All cases. Weak nouns (gender m*) end in -n or -en everywhere but in the nominative."""
    forms = {"gender": gender[0]}
    for case in CASES:
        forms[case] = singular
        forms[f"{case} plural"] = plural
    if gender == "m*":
        forms |= dict.fromkeys(CASES[1:], plural)
    elif gender in ("m", "n"):
        forms["gen"] = singular + ("s" if re.search("e[lnr]$", singular) else "es")
    if plural[-1] not in "ns":
        forms["dat plural"] = plural + "n"
    return forms


def name(name: str, gender: str) -> Forms:
    return {"": name, "gender": gender, **dict.fromkeys(CASES, name)}


def unit(plural: str) -> Forms:
    """Units and currencies. CLDR writes Britische Pfund, as in a title; we do not."""
    if re.match(r"\w+e ", plural):
        plural = plural[0].lower() + plural[1:]
    return {"": plural, "dat": plural if plural[-1] in "ns" else plural + "n"}


def number(n: int) -> Forms:
    return {"": cardinal(n)}


def day(n: int) -> str:
    return f"{n}."


def pronoun(accusative: str, dative: str) -> Forms:
    return {"acc": accusative, "dat": dative}


def adverb(*words: str) -> Forms:
    return {"": " ".join(words)}


def verb(infinitive: str, third: str, past: str, case: str = "acc") -> Forms:
    """kaufen kauft gekauft; an-rufen ruft angerufen; reisen reist ist+gereist; sein ist war/waren.

    The plural is the infinitive, or stands behind a slash. A past with a slash is a simple past,
    any other one is a participle with its auxiliary.
    """
    *particle, stem = infinitive.split("-")
    singular, _, plural = third.partition("/")
    participle = past.removeprefix("ist+")
    forms = {
        "infinitive": "".join([*particle, stem]),
        "zu": f"{particle[0]}zu{stem}" if particle else f"zu {stem}",
        "singular": singular,
        "plural": plural or stem,
        "particle": "".join(particle),
        "auxiliary": "haben" if participle == past else "sein",
        "case": case,
    }
    return forms | ({"past": past} if "/" in past else {"participle": participle})


def adjective(word: str) -> Forms:
    """The plain form and the stem that endings are put to: teuer, teur-; müde, müd-."""
    stem = re.sub("([ae]u)er$", r"\1r", word)
    return {"": word, "stem": re.sub("el$", "l", stem).removesuffix("e")}


def country(name: str, gender: str) -> Forms:
    """Neuter names have no article unless the gender is "das"; the others always have one."""
    if gender == "-":
        plain = dict.fromkeys(CASES, name)
        return plain | {"": name, "in": f"in {name}", "to": f"nach {name}"}
    forms = {"number": "plural" if gender == "p" else "singular"}
    *front, last = name.split(" ")
    for case in CASES[:3]:
        words = [re.sub("e[sr]?$", "", word) + WEAK[gender][case] for word in front]
        noun = last + "n" if (gender, case) == ("p", "dat") and last[-1] != "n" else last
        forms[case] = " ".join([DER[gender][case], *words, noun])
    return forms | {
        "": forms["nom"],
        "in": f"in {forms['dat']}",
        "to": f"in {forms['acc']}",
    }


class German(Language):
    side = "target"

    def agreement(self, form: str, other: Node) -> str:
        """An object has the case that its verb governs."""
        assert isinstance(other, Word)
        return self.forms(other)["case"]

    def negation(self, scene: Scene) -> str:
        return "nicht" if scene.clause.negated and not self.melts(scene.clause) else ""

    def melts(self, clause: Clause) -> bool:
        """Whether the negation melts with an indefinite article: nicht ein = kein."""
        denied = [s for s in clause.line.target.middle if not isinstance(s, str) and s.denied]
        node = clause.fillers[denied[0].name] if denied else None
        return isinstance(node, Phrase) and node.determiner == "a"

    def phrase(
        self, phrase: Phrase, form: str, scene: Scene | None = None, denied: bool = False
    ) -> str:
        forms = self.forms(phrase.noun)
        gender = "p" if phrase.plural else forms["gender"]
        if form == "er":
            return PRONOUNS[gender]
        if form == "den":
            return DER[gender]["acc"]
        case = form or "nom"
        determiner, endings, owner = phrase.determiner, STRONG, ""
        match determiner:
            case "the":
                article, endings = DER[gender][case], WEAK
            case "this":
                article, endings = "dies" + DIESER[gender][case], WEAK
            case "a":
                no = denied and scene is not None and scene.clause.negated
                article, endings = ("kein" if no else "ein") + EIN[gender][case], MIXED
            case "his":
                assert scene is not None
                article, endings = self.possessive(scene.subject) + EIN[gender][case], MIXED
            case Word():
                article = self.forms(determiner)[""]
            case Phrase(determiner=""):
                article = self.forms(determiner.noun)["nom"] + "s"
            case Phrase():
                article, endings = DER[gender][case], WEAK
                owner = self.phrase(determiner, "gen")
            case _:
                article = ""
        words = [article]
        if phrase.adjective is not None:
            words.append(self.forms(phrase.adjective)["stem"] + endings[gender][case])
        words += [forms[f"{case} plural" if phrase.plural else case], owner]
        text = " ".join(words).strip()
        if phrase.relative is not None:
            text += f", {self.clause(phrase.relative, 'final', head=phrase)},"
        return text

    def possessive(self, owner: Node | None) -> str:
        assert isinstance(owner, Phrase)
        return "ihr" if owner.plural or self.forms(owner.noun)["gender"] == "f" else "sein"

    def clause(self, clause: Clause, order: str, head: Phrase | None = None) -> str:
        """Finite verb second (main), before the subject (inverted, front) or last (final)."""
        wording = self.wording(clause.line)
        subject = self.subject(clause, head)
        time = self.text(clause.time) if clause.time else ""
        scene = Scene(clause, subject, "" if order == "front" else time)
        if head is None:
            name = self.render(wording.subject, clause.fillers)
        else:
            gender = "p" if head.plural else self.forms(head.noun)["gender"]
            name = DER[gender]["nom" if subject is head else "acc"]
            if subject is not head:
                name += " " + self.render(wording.subject, clause.fillers)
        finite, bracket = self.verb_group(clause, self.plural(subject))
        middle = self.render(wording.middle, clause.fillers, scene)
        tail = self.render(wording.tail, clause.fillers, scene)
        match order:
            case "main":
                words = [name, finite, middle, bracket]
            case "inverted":
                words = [finite, name, middle, bracket]
            case "front":
                words = [time, finite, name, middle, bracket]
            case "final" if clause.tense == "present":
                words = [name, middle, bracket + finite]
            case "final":
                words = [name, middle, bracket, finite]
            case _:
                raise ValueError(f"no such order of words: {order}")
        return " ".join(words) + tail

    def verb_group(self, clause: Clause, plural: bool) -> tuple[str, str]:
        """The finite verb, and what closes the clause: particle, participle or infinitive."""
        forms, tense = self.forms(self.verb(clause)), clause.tense
        if tense == "present":
            return forms["plural" if plural else "singular"], forms["particle"]
        if tense != "past":
            return AUXILIARIES[tense][plural], forms["infinitive"]
        if "past" in forms:
            return forms["past"].split("/")[plural], ""
        return AUXILIARIES[forms["auxiliary"]][plural], forms["participle"]

    def polish(self, text: str) -> str:
        text = re.sub(r"\s+", " ", text).strip()
        text = re.sub(r" (?=[.,?])", "", text)
        text = re.sub(r",+(?=[.,?])", "", text)
        text = re.sub(r"\b([Ii]|[Aa]|[Vv]o)n dem\b", r"\1m", text)
        return re.sub(r"\b([Ii])n das\b", r"\1ns", text)
