"""Words for rooms and other parts of a home. A home's own rooms come first; these are those that a home may lack."""

from typing import Final

from skillbus.queryir.english.lexicon.phrases import PhraseTable, read_words

_ROOMS: Final = """
kitchen, kitchenette, bedroom, master bedroom, guest room, guest bedroom, spare room, spare bedroom, living room,
lounge,
sitting room, family room, great room, dining room, bathroom, master bathroom, toilet, loo, restroom, washroom,
powder room, shower, shower room, en suite, ensuite, study, office, home office, hall, hallway, corridor, landing,
entrance, entrance hall, entry, entryway, entrance way, foyer, vestibule, porch, veranda, garage, carport, garden, yard,
backyard, back yard, front yard, patio, terrace, balcony, deck, attic, loft, basement, cellar, utility room, laundry,
laundry room, nursery, kids room, children room, playroom, games room, game room, den, gym, library, pantry, larder,
closet, walk in closet, dressing room, mudroom, mud room, shed, greenhouse, conservatory, sunroom, sun room, workshop,
pool, driveway, stairs, staircase, stairwell, upstairs, downstairs, outside, outdoors, indoors, storage room, storeroom,
boiler room, server room, media room, music room, cinema, home theater, home theatre, studio, meeting room,
conference room, reception, lobby, barn, cottage, rooftop, roof terrace, wine cellar, front garden, back garden
"""
_FLOORS: Final = "ground,first,second,third,fourth,fifth,1 st,2 nd,3 rd,4 th,5 th,top,upper,lower,bottom,main,middle"
ROOM_WORDS: Final = PhraseTable(
    dict.fromkeys((" ".join(room.split()) for room in _ROOMS.replace("\n", " ").split(",")), True)
    | {f"{which} {level}": True for which in _FLOORS.split(",") for level in ("floor", "level", "story", "storey")}
    | {f"{level} {number}": True for level in ("floor",) for number in ("1", "2", "3", "one", "two", "three")},
    singular=True,
)
ROOM_HEADS: Final = read_words(
    """
    room bedroom bathroom office study kitchen closet hallway hall garage balcony garden floor
    toilet playroom
    """
)
"""Nouns before which a person or another word says whose or which room it is: `Emma's bedroom`, `the yellow room`."""
ROOM_ADJECTIVES: Final = read_words(
    """
    guest master main spare kids kid children child upstairs downstairs small big large little
    second back front middle other girls boys parents baby
    """
)

EVERYWHERE: Final = PhraseTable(
    dict.fromkeys(
        [
            *("everywhere", "all over", "all around", "every room", "all rooms", "all the rooms", "all of the rooms"),
            *("each room", "throughout"),
            *(
                f"{before} {whose} {which}{home}".replace("  ", " ").strip()
                for before in ("in", "throughout", "across", "all over", "around", "of", "all around", "inside", "")
                for whose in ("the", "my", "our", "all the", "all of the")
                for which in ("whole ", "entire ", "")
                for home in ("house", "home", "apartment", "flat", "place", "building", "property")
            ),
            *("whole house", "entire house", "house wide", "whole home"),
        ],
        True,
    )
)
"""Phrases for the whole home."""
HERE: Final = PhraseTable(
    dict.fromkeys(
        "in here, here, over here, right here, in this room, this room, around here, in there, there"
        ", in this space, this space, in this area, this area, around this room"
        ", in the room, the room".replace(" , ", ", ").split(", "),
        True,
    )
)
"""Phrases for the place of the speaker, which the sentence does not name."""
OWN_ROOM: Final = PhraseTable(dict.fromkeys(("my room", "my own room", "our room", "our own room"), True))
"""Phrases for one room of the home, of a speaker who is not known. A home may have a room of that name."""
