"""English and German: the words, and the patterns that they stand in.

A new pattern is a new line in SIMPLE, RICH or SENTENCES, in the notation of `grammar`; a new word
is a new row in its table. The kinds of phrases ({subject}, {object} and so on) are in `book`.
"""

from phrasebook import english, german, lexicon
from phrasebook.book import Tables

# English noun: German gender (m* is a weak noun), singular, plural.
NOUNS = {
    "person": """
        actress: f Schauspielerin Schauspielerinnen
        baker: m Bäcker Bäcker
        boy: m* Junge Jungen
        child: n Kind Kinder
        doctor: m Arzt Ärzte
        girl: n Mädchen Mädchen
        journalist: m* Journalist Journalisten
        lawyer: m Anwalt Anwälte
        man: m Mann Männer
        nurse: f Krankenschwester Krankenschwestern
        student: m* Student Studenten
        teacher: m Lehrer Lehrer
        tourist: m* Tourist Touristen
        waitress: f Kellnerin Kellnerinnen
        woman: f Frau Frauen
        """,
    "fellow": """
        aunt: f Tante Tanten
        boss: m Chef Chefs
        brother: m Bruder Brüder
        colleague: m* Kollege Kollegen
        daughter: f Tochter Töchter
        friend: m Freund Freunde
        grandmother: f Großmutter Großmütter
        guest: m Gast Gäste
        neighbor: m* Nachbar Nachbarn
        sister: f Schwester Schwestern
        son: m Sohn Söhne
        uncle: m Onkel Onkel
        """,
    "thing": """
        apple: m Apfel Äpfel
        bag: f Tasche Taschen
        bicycle: n Fahrrad Fahrräder
        book: n Buch Bücher
        bottle: f Flasche Flaschen
        car: n Auto Autos
        chair: m Stuhl Stühle
        coat: m Mantel Mäntel
        hat: m Hut Hüte
        key: m Schlüssel Schlüssel
        lamp: f Lampe Lampen
        letter: m Brief Briefe
        newspaper: f Zeitung Zeitungen
        phone: n Telefon Telefone
        picture: n Bild Bilder
        ring: m Ring Ringe
        shirt: n Hemd Hemden
        suitcase: m Koffer Koffer
        table: m Tisch Tische
        umbrella: m Regenschirm Regenschirme
        watch: f Uhr Uhren
        """,
    "vehicle": """
        bus: m Bus Busse
        plane: n Flugzeug Flugzeuge
        ship: n Schiff Schiffe
        train: m Zug Züge
        """,
    "room": """
        church: f Kirche Kirchen
        garden: m Garten Gärten
        hotel: n Hotel Hotels
        kitchen: f Küche Küchen
        library: f Bibliothek Bibliotheken
        museum: n Museum Museen
        office: n Büro Büros
        park: m Park Parks
        school: f Schule Schulen
        """,
}

ADJECTIVES = {
    "trait": """
        old: alt
        young: jung
        friendly: freundlich
        tired: müde
        rich: reich
        famous: berühmt
        curious: neugierig
        happy: glücklich
        """,
    "look": """
        new: neu
        small: klein
        big: groß
        red: rot
        black: schwarz
        green: grün
        expensive: teuer
        heavy: schwer
        beautiful: schön
        ugly: hässlich
        """,
    "style": """
        beautiful: schön
        big: groß
        famous: berühmt
        old: alt
        quiet: ruhig
        small: klein
        """,
}
ADVERBS = {
    "comparative": """
        bigger: größer
        smaller: kleiner
        older: älter
        more beautiful: schöner
        more expensive: teurer
        more famous: berühmter
        """,
    "opening": """
        as usual: wie üblich
        fortunately: zum Glück
        in fact: tatsächlich
        of course: natürlich
        unfortunately: leider
        """,
}

# English pronoun: accusative, dative.
PRONOUNS = {
    "him": """
        him: ihn ihm
        her: sie ihr
        them: sie ihnen
        """,
}

# English verb: infinitive (a-b is separable), third person singular, participle, case if not acc.
VERBS = {
    "transitive": """
        borrow: aus-leihen leiht ausgeliehen
        bring: mit-bringen bringt mitgebracht
        buy: kaufen kauft gekauft
        clean: putzen putzt geputzt
        find: finden findet gefunden
        forget: vergessen vergisst vergessen
        look at: an-sehen sieht angesehen
        lose: verlieren verliert verloren
        need: brauchen braucht gebraucht
        pick up: ab-holen holt abgeholt
        repair: reparieren repariert repariert
        sell: verkaufen verkauft verkauft
        steal: stehlen stiehlt gestohlen
        throw away: weg-werfen wirft weggeworfen
        """,
    "meet": """
        call: an-rufen ruft angerufen
        congratulate: gratulieren gratuliert gratuliert dat
        follow: folgen folgt ist+gefolgt dat
        help: helfen hilft geholfen dat
        invite: ein-laden lädt eingeladen
        meet: treffen trifft getroffen
        thank: danken dankt gedankt dat
        visit: besuchen besucht besucht
        """,
    "give": """
        describe: beschreiben beschreibt beschrieben
        give: geben gibt gegeben
        give back: zurück-geben gibt zurückgegeben
        lend: leihen leiht geliehen
        recommend: empfehlen empfiehlt empfohlen
        send: schicken schickt geschickt
        show: zeigen zeigt gezeigt
        """,
    "journey": """
        escape: fliehen flieht ist+geflohen
        return: zurück-kehren kehrt ist+zurückgekehrt
        travel: reisen reist ist+gereist
        """,
    "travel": """
        fly: fliegen fliegt ist+geflogen
        move: um-ziehen zieht ist+umgezogen
        return: zurück-kehren kehrt ist+zurückgekehrt
        travel: reisen reist ist+gereist
        """,
    "live": """
        live: wohnen wohnt gewohnt
        sing: singen singt gesungen
        study: studieren studiert studiert
        work: arbeiten arbeitet gearbeitet
        """,
    "learn": """
        learn: lernen lernt gelernt
        speak: sprechen spricht gesprochen
        teach: unterrichten unterrichtet unterrichtet
        understand: verstehen versteht verstanden
        """,
    "practice": """
        learn: lernen lernt gelernt
        practice: üben übt geübt
        speak: sprechen spricht gesprochen
        """,
    "say": """
        believe: glauben glaubt geglaubt
        claim: behaupten behauptet behauptet
        hear: hören hört gehört
        hope: hoffen hofft gehofft
        say: sagen sagt gesagt
        write: schreiben schreibt geschrieben
        """,
    "tell": """
        promise: versprechen verspricht versprochen
        tell: erzählen erzählt erzählt
        """,
    "carry": """
        carry: tragen trägt getragen
        push: schieben schiebt geschoben
        take: bringen bringt gebracht
        """,
    "depart": """
        arrive: an-kommen kommt ist+angekommen
        leave: ab-fahren fährt ist+abgefahren
        """,
    "rain": """
        rain: regnen regnet geregnet
        snow: schneien schneit geschneit
        """,
    "ask": "ask: fragen fragt gefragt",
    "be": "be: sein ist/sind war/waren",
    "become": "be: werden wird wurde/wurden",
    "belong": "belong: gehören gehört gehört",
    "cost": "cost: kosten kostet gekostet",
    "exchange": "exchange: um-tauschen tauscht umgetauscht",
    "hide": "hide: verstecken versteckt versteckt",
    "like": "like: gefallen gefällt gefallen",
    "seek": "look for: suchen sucht gesucht",
    "pay": "pay: zahlen zahlt gezahlt",
    "run": "run: laufen läuft ist+gelaufen",
    "stay": "stay: bleiben bleibt ist+geblieben",
    "think": "think: denken denkt gedacht",
    "wait": "wait: warten wartet gewartet",
    "weigh": "weigh: wiegen wiegt gewogen",
}

# Names with a gender have an article: die Schweiz, der Iran, das Vereinigte Königreich.
COUNTRIES = {
    "-": "AT BE BR CA CL CN DE DK EG ES FI FR GR IE IN IT JP KE MX NO NZ PE PL PT SE ZA",
    "f": "CH UA",
    "m": "IR LB",
    "n": "GB",
    "p": "NL PH US",
}

TIMES = {
    "any": """
        on {weekday} = am {weekday}
        in {month} = im {month}
        on {month} {day} = am {day} {month}
        on the {ordinal} of {month} = am {ordinal} {month}
        at {hour} o'clock = um {hour} Uhr
        """,
    "present": """
        today = heute
        every {weekday} = jeden {weekday}
        """,
    "past": """
        yesterday = gestern
        last {weekday} = letzten {weekday}
        {few} {period} ago = vor {few} {period dat}
        in {year} = im Jahr {year}
        """,
    "future": """
        tomorrow = morgen
        next {weekday} = nächsten {weekday}
        in {few} {period} = in {few} {period dat}
        """,
}

SIMPLE = """
{subject} {transitive} {object} @
    = {subject} {transitive} @ {object acc} ~
{subject} {transitive} {objects} @
    = {subject} {transitive} @ {objects acc}
{subject} {meet} {partner} @
    = {subject} {meet} @ {partner@meet} ~
{subject} {meet} {him} @
    = {subject} {meet} {him@meet} @ ~
{subject} {give} {object} to {him} @
    = {subject} {give} {him dat} @ {object acc} ~
{subject} {travel} to {country} @
    = {subject} {travel} @ ~ {country to}
{subject} {live} in {country}
    = {subject} {live} ~ {country in}
{subject} {live} in {place} @
    = {subject} {live} @ ~ in {place dat}
{subject} {learn} {language} @
    = {subject} {learn} @ {language}
{subject} {seek} {object} in {place} @
    = {subject} {seek} @ {object acc} ~ in {place dat}
{subject} {wait} for {partner} @
    = {subject} {wait} @ ~ auf {partner acc}
{subject} {run} {number} {distance} @
    = {subject} {run} @ {number} {distance}
[present past] {subject} {like} {goods}
    = {goods} {like} {subject dat}
[plain] {item} {belong} to {holder}
    = {item} {belong} {holder dat} ~
[plain] {item} {be} too {look} for {holder}
    = {item} {be} ~ zu {look} für {holder acc}
[plain] it {rain} in {country} @
    = es {rain} @ {country in}
"""

RICH = """
{subject} {give} {object} to {partner} @
    = {subject} {give} @ {partner dat} {object acc} ~
{subject} {transitive} {object} in {country} @
    = {subject} {transitive} @ {object acc} {country in}
{subject} {carry} {object} into {place} @
    = {subject} {carry} @ {object acc} ~ in {place acc}
{subject} {hide} {object} under {goods} @
    = {subject} {hide} @ {object acc} ~ unter {goods dat}
{subject} {journey} to {country} by {ride bare} @
    = {subject} {journey} @ ~ mit {ride dat} {country to}
{subject} {travel} from {country} to {country2} @
    = {subject} {travel} @ von {country dat} {country2 to}
{subject} {learn} {language} and {language2} @
    = {subject} {learn} @ {language} und {language2}
{subject} {practice} {language} with {partner} @
    = {subject} {practice} @ mit {partner dat} {language}
{subject} {live} with {partner} in {country}
    = {subject} {live} ~ mit {partner dat} {country in}
{subject} {wait} for {him} in {place} @
    = {subject} {wait} @ in {place dat} ~ auf {him acc}
{subject} {think} of {object} @
    = {subject} {think} @ ~ an {object acc}
{subject} {stay} in {country} for {few} {period}
    = {subject} {stay} {few} {period} lang {country in}
{subject} {pay} {amount} {currency} for {object} @
    = {subject} {pay} @ {amount} {currency} für {object acc}
{subject} {pay} {partner} {number} {currency} @
    = {subject} {pay} @ {partner dat} {number} {currency}
{subject} {exchange} {amount} {currency} for {currency2} @
    = {subject} {exchange} @ {amount} {currency} in {currency2}
[past] {subject} {become} born in {country} @
    = {subject} {become} @ {country in} geboren
[plain] {subject} {be} {number} years old
    = {subject} {be} {number} Jahre alt
[plain] {language} {become} spoken in {country}
    = {language} {become} {country in} ~ gesprochen
[plain] {country} {be} {comparative} than {country2}
    = {country} {be} ~ {comparative} | als {country2}
[plain] {item} {be} {comparative} than {goods}
    = {item} {be} ~ {comparative} | als {goods}
[present future] {item} {cost} {number} {currency}
    = {item} {cost} {number} {currency}
[plain] {item} {weigh} {few} {weight}
    = {item} {weigh} {few} {weight}
[plain] {ride} to {country} {depart} on {weekday} at {hour} o'clock
    = {ride} {country to} {depart} am {weekday} um {hour} Uhr
[past] {subject} {transitive} {goods} because {goods it} {goods was/were} too {look}
    = {subject} {transitive} {goods acc} |, weil {goods er} zu {look} {goods war/waren}
{subject} {seek} {goods} that nobody can find
    = {subject} {seek} {goods acc} |, {goods den} niemand finden kann
{subject} {travel} to {country} to learn {language}
    = {subject} {travel} {country to} |, um {language} zu lernen
{subject} {travel} to {country} to {meet base} {partner}
    = {subject} {travel} {country to} |, um {partner@meet} {meet zu}
{subject} {say} that {short}
    = {subject} {say} |, dass {short final}
{subject} {tell} {partner} that {short}
    = {subject} {tell} {partner dat} |, dass {short final}
{subject} {ask} {partner} whether {short}
    = {subject} {ask} {partner acc} |, ob {short final}
"""

SENTENCES = """
{clause}. = {clause}.
{timed front}. = {timed front}.
{clause question}? = {clause inverted}?
Why {clause question}? = Warum {clause inverted}?
When {untimed question}? = Wann {untimed inverted}?
{opening}, {clause}. = {opening} {clause inverted}.
I think that {clause}. = Ich glaube, dass {clause final}.
Did you know that {clause}? = Wussten Sie, dass {clause final}?
Nobody knows whether {clause}. = Niemand weiß, ob {clause final}.
I do not know when {untimed}. = Ich weiß nicht, wann {untimed final}.
{short} because {short2}. = {short}, weil {short2 final}.
Because {short}, {short2}. = Weil {short final}, {short2 inverted}.
If {present}, {future}. = Wenn {present final}, {future inverted}.
{short}, but {short2}. = {short}, aber {short2}.
Although {short}, {short2}. = Obwohl {short final}, {short2 inverted}.
"""


def tables() -> Tables:
    return Tables(
        source=english.English(),
        target=german.German(),
        words={
            **lexicon.people(german.name),
            "country": lexicon.countries(COUNTRIES, "de", german.country),
            **lexicon.nouns(NOUNS, german.noun),
            **lexicon.adjectives(ADJECTIVES, german.adjective),
            **lexicon.adjectives(ADVERBS, german.adverb),
            **lexicon.adjectives(PRONOUNS, german.pronoun),
            **lexicon.measures("de", german.unit),
            **lexicon.numbers(german.number),
            **lexicon.plain("de", german.day, german.ordinal),
        },
        verbs=lexicon.verbs(VERBS, german.verb),
        times=TIMES,
        simple=SIMPLE,
        rich=RICH,
        sentences=SENTENCES,
    )
