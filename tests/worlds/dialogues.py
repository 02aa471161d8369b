"""A dialogue in INSPIRED's table format, and the turns that are read from it."""

INSPIRED = (
    "dialog_id utt_id speaker turn_id text text_with_placeholder movies genres people_names movie_dict genre_dict"
    " actor_dict director_dict others_dict expert_label second_label fine_label coarse_label movie_id"
).split()

TALK = [
    ("d1", 1, "RECOMMENDER", 1, "Hello!", ""),
    ("d1", 2, "SEEKER", 1, "Hi, my son Ethan and I want a calm film.", ""),
    ("d1", 3, "SEEKER", 1, "We liked QUOTATION_MARKUpQUOTATION_MARK", "Up (2009)"),
    ("d2", 1, "SEEKER", 1, "Anything?", ""),
    ("d1", 4, "RECOMMENDER", 2, "Try these", "Heat (1995);  Ronin (1998)"),
]


def tsv(rows):
    columns = ("dialog_id", "utt_id", "speaker", "turn_id", "text", "movies")
    cells = [dict.fromkeys(INSPIRED, "") | dict(zip(columns, map(str, row), strict=True)) for row in rows]
    return "\n".join("\t".join(line) for line in [INSPIRED, *([c[n] for n in INSPIRED] for c in cells)]) + "\n"


def said(rows):
    return [[(t["role"], t["text"], t["items"]) for t in turns] for turns in rows["turns"].to_list()]
