"""Words that hold a sentence together: politeness, quantifiers, references, exceptions, questions, numbers."""

from typing import Final

from skillbus.contracts.retriever.query_ir import Quantifier
from skillbus.queryir.english.lexicon.phrases import PhraseTable, read_words


def _list_phrases(text: str) -> list[str]:
    return [" ".join(phrase.split()) for phrase in text.replace("\n", " ").split(",")]


_MODALS: Final = ("can", "could", "will", "would", "may", "might", "shall", "should")
_COURTESY: Final = [
    *(
        f"{modal} {who}{how}"
        for modal in _MODALS
        for who in ("you", "we")
        for how in ("", " please", " possibly", " just")
    ),
    *(f"{who} {modal}" for modal in (*_MODALS, "must", "need to", "have to") for who in ("you", "we")),
    *(
        f"{modal} i {ask} you to"
        for modal in ("can", "could", "may", "might")
        for ask in ("ask", "get", "trouble", "beg")
    ),
    *(f"i {ask} you to" for ask in ("ask", "am asking", "beg", "want", "need", "would like", "would love", "expect")),
    *(
        f"{hope} {who} {modal}"
        for hope in (
            *(
                "i hope",
                "i am hoping",
                "i was hoping",
                "i wish",
                "i wonder if",
                "i was wondering if",
                "i am wondering if",
            ),
            *("any chance", "any chance that", "is there any chance", "is there a chance", "do you think", "think"),
        )
        for who in ("you", "we")
        for modal in ("can", "could", "would", "will", "might")
    ),
    *(f"when you {have} a {moment}" for have in ("have", "get") for moment in ("moment", "minute", "second", "sec")),
    *(
        "feel free to",
        "i beg you",
        "first",
        "first of all",
        "oh",
        "ah",
        "hmm",
        "mm",
        "ugh",
        "when you are free",
        "sorry",
    ),
]
"""Phrases that make a request polite, and those with which it begins."""

FILLERS: Final = PhraseTable(
    dict.fromkeys(_COURTESY, True)
    | dict.fromkeys(
        _list_phrases(
            """please, pls, plz, kindly, how about, what about, why do not you, why not, could you please,
            can you please, would you please, will you please, though, see that, needs to, should, must, has to,
            could you, can you, would you, will you, would you mind, do you mind, i want you to, i would like you to,
            i need you to, i want to, i would like to, i need to, i would like, i want, we need to, we want to,
            let us, let me, help me, go ahead and, be so kind as to, be a dear and, be so kind and, if you can,
            if you could, if you would, if possible, if you do not mind, hey, hi, hello, ok, okay, alright,
            right then, yo, thanks, thank you, thank you very much, thanks a lot, cheers, for me, for us, now,
            right now, right away, immediately, at once, at the moment, currently, just, only, rather, also, again,
            once more, too, as well, quickly, asap, as soon as possible, make sure that, make sure, make sure to,
            ensure that, ensure,
            be sure to, be sure that, see to it that, you know, um, uh, er, erm, like, well, so, actually, maybe,
            perhaps, really, simply, instead, anyway, today, tonight, i think, i guess, i was wondering if you could,
            is it possible to, would it be possible to, are you able to, it would be nice if you could, can we,
            could we, can i have, could i have, may i have, can you go and, go and, try to, remember to,
            do not forget to, do me a favor and, do me a favour and, computer, google, ok google, hey google, alexa,
            siri, hey siri, assistant, jarvis, home assistant, completely, fully, all the way, entirely, totally,
            altogether, straight away, for a moment, for a while, when you can, when you get a chance, at this time,
            at present, still, already, yet, ever, be able to, want to, would be great, quick, will ya, would ya,
            the thing is,
            i am off, we are off, i am off to, we are off to, i am off to bed, i am off out,
            i would appreciate it if you could, i would appreciate it if you, i would be grateful if you could,
            i would be grateful if you, it would be great if you could, it would be great if you, will do, would do,
            i would love it if you, i am going to bed, we are going to bed, i am going to sleep, i am going out,
            we are going out, i am leaving, we are leaving, i am heading out, we are heading out, i am home,
            we are home,
            good morning, good night, goodnight, good evening, good afternoon, good day, bye, goodbye, see you later,
            it is time to, time to, it is bedtime, you, i, we, me, us, ourselves, myself"""
        ),
        True,
    )
)
"""Phrases that change nothing."""

FUNCTION_WORDS: Final = read_words(
    """
    back
    the my our your his her their of in at inside within for from into is are be being been by with
    which who whose do does did has have had was were am what to as some's own its that's an a via
    onto over currently there whether if device devices thing things stuff ones one state status
    value level levels mood
    """
)
"""Words without a meaning of their own here."""
VOCATIVES: Final = read_words("mate buddy dear man dude bro honey love sweetie pal guys folks friend sir madam")
"""Names for the listener, at the end of a sentence."""
QUESTION_FILLERS: Final = read_words(
    """
    much many long big far fast high strong old heavy left need needs use uses using used take takes drawing draw
    producing
    produce consuming consume amount total reading readings showing show doing happening going there get gets getting
    indicated measured shown displayed according
    currently need needed available report reported say says really actually exactly often soon late
    """
)
"""Words that only fill a question: `how much power does the fan use`."""
GENERIC_NOUNS: Final = read_words(
    """
    device devices thing things stuff one ones unit units appliance appliances gadget gadgets item
    items machine machines equipment floor floors ground wall walls ceiling air place area areas
    spot room rooms
    """
)
"""Nouns that name no device."""
GENERIC_ADJECTIVES: Final = read_words(
    """
    entire whole damn damned darn bloody stupid blasted freaking friggin goddamn lovely nice little old-fashioned
    same other individual remaining single various certain connected smart electric
    """
)
LOCATIVES: Final = read_words(
    """
    in at inside on within for of from around throughout across
    """
)
ARTICLES: Final = read_words(
    """
    the my our your his her their all both every each any some a an this that
    """
)

QUANTIFIERS: Final = PhraseTable(
    {
        **dict.fromkeys(
            _list_phrases(
                """all, all of, all the, all of the, all our, all my, all of our, all of my, every, every single,
                each, every one of, each of, everything, each and every, every last, both, both of, all these,
                all those, any and all, the whole lot of, every one, each one, all kinds of, whatever,
                anything that is, all that is, the whole lot, the lot, it all, all of it,
                the whole thing, every bit of"""
            ),
            Quantifier.ALL,
        ),
        **dict.fromkeys(
            _list_phrases(
                "any, any of, any one, any one of, either, either of, one of, a, an, one, a single, just one,"
                " only one, at least one, a random, whichever, any single, either one of, one random, anything,"
                " another, another one, a different, a different one"
            ),
            Quantifier.ONE,
        ),
        **dict.fromkeys(
            _list_phrases(
                "some, some of, a few, a few of, several, several of, most, most of, a bunch of, a number of, half of,"
                " half the, half of the, many of, a handful of"
            ),
            Quantifier.SOME,
        ),
        **dict.fromkeys(_list_phrases("a couple, a couple of, couple of, a pair of, a pair"), Quantifier.COUNT),
    }
)
"""Quantifiers. `a couple of` counts two."""

REFERENCES: Final = PhraseTable(
    dict.fromkeys(
        _list_phrases(
            """it, them, they, that, those, these, this, that one, this one, those ones, these ones, the same one,
            the same ones, the same, the last one, the last ones, the previous one, the previous ones, the ones,
            both of them, all of them, all of those, all of these, each of them, these two, those two,
            the two of them, that thing, this thing, these things, those things, that device, this device,
            those devices, these devices, the same device, the same devices, the one, the former one,
            the aforementioned, that same one, him, her, the last device, itself, the one from before, the one before"""
        ),
        True,
    )
)
"""Words for what an earlier sentence was about."""

OTHERS: Final = PhraseTable(
    dict.fromkeys(
        _list_phrases(
            """everything else, all else, all others, all the others, the others, the other, all other, all the other,
            all of the other, all of the others, the rest, the rest of, the rest of the, all the rest, the remaining,
            others, other, every other, all remaining, the other ones, all the rest of the, anything else,
            all of the rest, the remaining ones, every other one, all the remaining, the rest of them, the ones left"""
        ),
        True,
    )
)
"""Words for all but what is kept."""

EXCEPTIONS: Final = PhraseTable(
    dict.fromkeys(
        _list_phrases(
            """except, except for, excepting, excluding, exclude, but not, apart from, aside from, other than,
            besides, save for, save, with the exception of, not including, leaving out, not counting, bar, barring,
            without, omitting, minus, outside of, and not, not, ignoring, skipping, not the ones in, but skip,
            but spare, sparing, but exclude, with exception of, except from, everywhere except"""
        ),
        True,
    )
)
"""Words that leave devices out."""
KEEPERS: Final = PhraseTable(
    dict.fromkeys(
        _list_phrases(
            """leave, keep, spare, do not touch, but leave, but keep, but do not touch, just leave, just keep,
            only leave, only keep, leaving, keeping, but do not turn off, but do not switch off, but do not turn on,
            but do not switch on, but do not close, but do not open, but do not shut off, but do not lock,
            but do not change, do not change, but not touch, and leave, and keep, while leaving, while keeping,
            but ignore, but do not"""
        ),
        True,
    )
)
"""Verbs that leave devices as they are."""
NEGATIONS: Final = PhraseTable(dict.fromkeys(_list_phrases("do not, never, do n't, please do not"), True))

QUESTIONS: Final = PhraseTable(
    dict.fromkeys(
        _list_phrases(
            """is, are, was, were, which, what, how, where, who, whose, when, why, do i, do we, do you have, do any,
            do the, do my, do all, do you see, does, did, has, have you, have i, have any, have we, has any, am i,
            tell me, tell me if, tell me whether, tell me about, tell me what, check, check if, check whether,
            check on, check that, check for, let me know, let me know if, let me know whether, do you know,
            do you know if, do you know whether, i wonder, i wonder if, i want to know, i would like to know, give me,
            show me, show, report, read, read out, read me, get me the, get the state of, get the status of,
            get the temperature, get the current temperature, query, status of, state of, list, count, find out,
            find out if, can you tell me, could you tell me, can you check, could you check, any, anything,
            anything still, did i leave, did someone leave, are there, is there, can you see if, see if, look if,
            look whether, will it, am, i wonder whether, verify, verify that, verify if, would you tell me,
            what about the state of, i need to know, tell us, say, confirm, confirm that, inform me, get status,
            get state"""
        ),
        True,
    )
)
"""Openings of a question."""

_UNITS: Final = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
eighteen nineteen
"""
_TENS: Final = "twenty thirty forty fifty sixty seventy eighty ninety"
NUMBERS: Final = dict(zip(_UNITS.split(), range(20), strict=True)) | dict(
    zip(_TENS.split(), range(20, 100, 10), strict=True)
)
"""Numbers as words."""
