"""English and French: the words, and the patterns that they stand in.

A new pattern is a new line in SIMPLE, RICH or SENTENCES, in the notation of `grammar`; a new word
is a new row in its table. The kinds of phrases ({subject}, {object} and so on) are in `book`.
"""

from phrasebook import english, french, lexicon
from phrasebook.book import Tables

# English noun: French gender, singular, and the plural if it is irregular.
NOUNS = {
    "person": """
        actress: f actrice
        baker: m boulanger
        boy: m garçon
        child: m enfant
        doctor: m médecin
        girl: f fille
        journalist: m journaliste
        lawyer: m avocat
        man: m homme
        nurse: f infirmière
        student: m étudiant
        teacher: m professeur
        tourist: m touriste
        waitress: f serveuse
        woman: f femme
        """,
    "fellow": """
        aunt: f tante
        boss: m patron
        brother: m frère
        colleague: m collègue
        cousin: m cousin
        friend: m ami
        grandmother: f grand-mère grands-mères
        guest: m invité
        neighbor: m voisin
        sister: f sœur
        son: m fils
        uncle: m oncle
        """,
    "thing": """
        apple: f pomme
        bag: m sac
        bicycle: m vélo
        book: m livre
        bottle: f bouteille
        car: f voiture
        chair: f chaise
        coat: m manteau
        hat: m chapeau
        key: f clé
        lamp: f lampe
        letter: f lettre
        newspaper: m journal
        phone: m téléphone
        picture: m tableau
        ring: f bague
        shirt: f chemise
        suitcase: f valise
        table: f table
        umbrella: m parapluie
        watch: f montre
        """,
    "vehicle": """
        bus: m bus
        plane: m avion
        ship: m bateau
        train: m train
        """,
    "room": """
        church: f église
        garden: m jardin
        hotel: m hôtel
        kitchen: f cuisine
        library: f bibliothèque
        museum: m musée
        office: m bureau
        park: m parc
        school: f école
        """,
}

# English adjective: masculine (< stands before the noun), feminine, masculine before a vowel.
ADJECTIVES = {
    "trait": """
        old: <vieux vieille vieil
        young: <jeune
        friendly: aimable
        tired: fatigué
        rich: riche
        famous: célèbre
        curious: curieux curieuse
        happy: heureux heureuse
        """,
    "look": """
        new: <nouveau nouvelle nouvel
        small: <petit
        big: <grand
        red: rouge
        black: noir
        green: vert
        expensive: cher chère
        heavy: lourd
        beautiful: <beau belle bel
        ugly: laid
        """,
    "style": """
        beautiful: <beau belle bel
        big: <grand
        famous: célèbre
        old: <vieux vieille vieil
        quiet: calme
        small: <petit
        """,
    "comparative": """
        bigger: grand
        smaller: petit
        older: vieux vieille
        more beautiful: beau belle
        more expensive: cher chère
        more famous: célèbre
        """,
}
ADVERBS = {
    "opening": """
        fortunately: heureusement
        in fact: en fait
        of course: bien sûr
        normally: normalement
        unfortunately: malheureusement
        """,
}

# English pronoun: gender, direct object, indirect object.
PRONOUNS = {
    "him": """
        him: m le lui
        her: f la lui
        them: mp les leur
        """,
}

# English verb: infinitive if it is regular, or with third person singular and plural,
# participle, future; and at last "à" if its object needs that.
VERBS = {
    "transitive": """
        borrow: emprunter
        bring: apporter
        buy: acheter achète achètent acheté achètera
        clean: nettoyer nettoie nettoient nettoyé nettoiera
        find: trouver
        forget: oublier
        look at: regarder
        lose: perdre perd perdent perdu perdra
        repair: réparer
        see: voir voit voient vu verra
        sell: vendre vend vendent vendu vendra
        steal: voler
        take: prendre prend prennent pris prendra
        throw away: jeter jette jettent jeté jettera
        """,
    "meet": """
        answer: répondre répond répondent répondu répondra à
        follow: suivre suit suivent suivi suivra
        forgive: pardonner à
        help: aider
        invite: inviter
        meet: rencontrer
        obey: obéir obéit obéissent obéi obéira à
        thank: remercier
        """,
    "give": """
        describe: décrire décrit décrivent décrit décrira
        give: donner
        give back: rendre rend rendent rendu rendra
        lend: prêter
        recommend: recommander
        send: envoyer envoie envoient envoyé enverra
        show: montrer
        """,
    "journey": """
        come: venir vient viennent être+venu viendra
        go: aller va vont être+allé ira
        return: retourner retourne retournent être+retourné retournera
        """,
    "travel": """
        come: venir vient viennent être+venu viendra
        go: aller va vont être+allé ira
        move: déménager
        return: retourner retourne retournent être+retourné retournera
        """,
    "live": """
        live: habiter
        sing: chanter
        study: étudier
        work: travailler
        """,
    "learn": """
        learn: apprendre apprend apprennent appris apprendra
        study: étudier
        teach: enseigner
        understand: comprendre comprend comprennent compris comprendra
        """,
    "practice": """
        learn: apprendre apprend apprennent appris apprendra
        practice: pratiquer
        study: étudier
        """,
    "say": """
        announce: annoncer
        claim: affirmer
        explain: expliquer
        say: dire dit disent dit dira
        write: écrire écrit écrivent écrit écrira
        """,
    "tell": """
        promise: promettre promet promettent promis promettra
        tell: raconter
        """,
    "carry": """
        carry: porter
        pull: tirer
        push: pousser
        """,
    "depart": """
        arrive: arriver arrive arrivent être+arrivé arrivera
        leave: partir part partent être+parti partira
        """,
    "rain": """
        rain: pleuvoir pleut pleuvent plu pleuvra
        snow: neiger
        """,
    "age": "be: avoir a ont avait/avaient aura",
    "ask": "ask: demander",
    "be": "be: être est sont était/étaient sera",
    "belong": "belong: appartenir appartient appartiennent appartenait/appartenaient appartiendra",
    "born": "be born: naître naît naissent être+né naîtra",
    "cost": "cost: coûter",
    "exchange": "exchange: échanger",
    "hide": "hide: cacher",
    "like": "like: plaire plaît plaisent plu plaira",
    "pay": "pay: payer paie paient payé paiera",
    "run": "run: courir court courent couru courra",
    "seek": "look for: chercher",
    "speak": "speak: parler",
    "stay": "stay: rester reste restent être+resté restera",
    "think": "think: penser",
    "wait": "wait: attendre attend attendent attendu attendra",
    "weigh": "weigh: peser pèse pèsent pesait/pesaient pèsera",
}

# m' is masculine with a vowel in front: en Iran, but au Japon; mp and fp are plural.
COUNTRIES = {
    "f": "AT BE CH CN DE EG ES FI FR GR IE IN IT NO NZ PL SE UA ZA",
    "m": "BR CA CL DK GB JP KE LB MX PE PT",
    "m'": "IR",
    "mp": "NL US",
    "fp": "PH",
}

TIMES = {
    "any": """
        on {weekday} = {weekday}
        in {month} = en {month}
        on {month} {day} = le {day} {month}
        on the {ordinal} of {month} = le {ordinal} {month}
        at {hour} o'clock = à {hour} heures
        """,
    "present": """
        today = aujourd'hui
        every {weekday} = tous les {weekday}s
        """,
    "past": """
        yesterday = hier
        last {weekday} = {weekday} dernier
        {few} {period} ago = il y a {few} {period}
        in {year} = en {year}
        """,
    "future": """
        tomorrow = demain
        next {weekday} = {weekday} prochain
        in {few} {period} = dans {few} {period}
        """,
}

SIMPLE = """
{subject} {transitive} {object} @
    = {subject} {transitive} {object} ~ @
{subject} {transitive} {objects} @
    = {subject} {transitive} {objects} @
{subject} {meet} {partner} @
    = {subject} {meet} {partner@meet} ~ @
{subject} {meet} {him} @
    = {subject} {him@meet} {meet} ~ @
{subject} {give} {object} to {him} @
    = {subject} {him à} {give} {object} ~ @
{subject} {travel} to {country} @
    = {subject} {travel} ~ {country in} @
{subject} {live} in {country}
    = {subject} {live} ~ {country in}
{subject} {live} in {place} @
    = {subject} {live} ~ dans {place} @
{subject} {learn} {language} @
    = {subject} {learn} ~ le {language} @
{subject} {speak} {language}
    = {subject} {speak} ~ {language}
{subject} {seek} {object} in {place} @
    = {subject} {seek} {object} ~ dans {place} @
{subject} {wait} for {partner} @
    = {subject} {wait} {partner} ~ @
{subject} {run} {number} {distance} @
    = {subject} {run} {number@distance} {distance} @
[present past] {subject} {like} {goods}
    = {goods} {like} ~ à {subject}
[plain] {item} {belong} to {holder}
    = {item} {belong} ~ à {holder}
[plain] {item} {be} too {look} for {holder}
    = {item} {be} ~ trop {look@item} pour {holder}
[plain] it {rain} in {country} @
    = il {rain} {country in} @
"""

RICH = """
{subject} {give} {object} to {partner} @
    = {subject} {give} {object} ~ à {partner} @
{subject} {transitive} {object} in {country} @
    = {subject} {transitive} {object} {country in} @
{subject} {carry} {object} into {place} @
    = {subject} {carry} {object} ~ dans {place} @
{subject} {hide} {object} under {goods} @
    = {subject} {hide} {object} ~ sous {goods} @
{subject} {journey} to {country} by {ride bare} @
    = {subject} {journey} ~ {country in} en {ride bare} @
{subject} {journey} from {country} to {country2} @
    = {subject} {journey} {country from} {country2 in} @
{subject} {learn} {language} and {language2} @
    = {subject} {learn} le {language} et le {language2} @
{subject} {practice} {language} with {partner} @
    = {subject} {practice} ~ le {language} avec {partner} @
{subject} {live} with {partner} in {country}
    = {subject} {live} ~ avec {partner} {country in}
{subject} {wait} for {him} in {place} @
    = {subject} {him} {wait} ~ dans {place} @
{subject} {think} of {object} @
    = {subject} {think} ~ à {object} @
{subject} {stay} in {country} for {few} {period}
    = {subject} {stay} {country in} pendant {few} {period}
{subject} {pay} {amount} {currency} for {object} @
    = {subject} {pay} {amount} {currency} pour {object} @
{subject} {pay} {partner} {number} {currency} @
    = {subject} {pay} {number@currency} {currency} à {partner} @
{subject} {exchange} {amount} {currency} for {currency2} @
    = {subject} {exchange} {amount} {currency} contre des {currency2} @
[past] {subject} {born} in {country} @
    = {subject} {born} {country in} @
[plain] {subject} {age} {number} years old
    = {subject} {age} ~ {number} ans
[plain] {language} {be} spoken in {country}
    = le {language} {be} ~ parlé {country in}
[plain] {country} {be} {comparative} than {country2}
    = {country} {be} ~ plus {comparative@country} que {country2}
[plain] {item} {be} {comparative} than {goods}
    = {item} {be} ~ plus {comparative@item} que {goods}
[present future] {item} {cost} {number} {currency}
    = {item} {cost} {number@currency} {currency}
[plain] {item} {weigh} {few} {weight}
    = {item} {weigh} {few} {weight}
[plain] {ride} to {country} {depart} on {weekday} at {hour} o'clock
    = {ride} pour {country} {depart} {weekday} à {hour} heures
[past] {subject} {transitive} {goods} because {goods it} {goods was/were} too {look}
    = {subject} {transitive} {goods} parce que {goods il} {goods était/étaient} trop {look@goods}
{subject} {seek} {goods} that nobody can find
    = {subject} {seek} {goods} que personne ne peut trouver
{subject} {travel} to {country} to learn {language}
    = {subject} {travel} {country in} pour apprendre le {language}
{subject} {travel} to {country} to {meet base} {partner}
    = {subject} {travel} {country in} pour {meet infinitive} {partner@meet}
[present future can want should] {subject} {say} that {short}
    = {subject} {say} que {short}
[present future can want should] {subject} {tell} {partner} that {short}
    = {subject} {tell} à {partner} que {short}
[present future can want should] {subject} {ask} {partner} whether {short}
    = {subject} {ask} à {partner} si {short}
"""

SENTENCES = """
{clause}. = {clause}.
{timed front}. = {timed front}.
{clause question}? = est-ce que {clause} ?
Why {clause question}? = pourquoi est-ce que {clause} ?
When {untimed question}? = quand est-ce que {untimed} ?
{opening}, {clause}. = {opening}, {clause}.
I think that {clause}. = je pense que {clause}.
Did you know that {clause}? = saviez-vous que {clause} ?
Nobody knows whether {clause}. = personne ne sait si {clause}.
I do not know when {untimed}. = je ne sais pas quand {untimed}.
{short} because {short2}. = {short} parce que {short2}.
Because {short}, {short2}. = comme {short}, {short2}.
If {present}, {future}. = si {present}, {future}.
{short}, but {short2}. = {short}, mais {short2}.
{short}, so {short2}. = {short}, donc {short2}.
"""


def tables() -> Tables:
    return Tables(
        source=english.English(),
        target=french.French(),
        words={
            **lexicon.people(french.name),
            "country": lexicon.countries(COUNTRIES, "fr", french.country),
            **lexicon.nouns(NOUNS, french.noun),
            **lexicon.adjectives(ADJECTIVES, french.adjective),
            **lexicon.adjectives(ADVERBS, french.adverb),
            **lexicon.adjectives(PRONOUNS, french.pronoun),
            **lexicon.measures("fr", french.unit),
            **lexicon.numbers(french.number),
            **lexicon.plain("fr", str, french.day),
        },
        verbs=lexicon.verbs(VERBS, french.verb),
        times=TIMES,
        simple=SIMPLE,
        rich=RICH,
        sentences=SENTENCES,
    )
