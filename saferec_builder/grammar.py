"""English grammar as the rules look for it: where a thought ends or turns, who is meant, what is denied.

Matched in lower case, in texts that cues.Book.mask has read: a BLANK stands where a title was.
"""

import re

SENTENCE_END = re.compile(r"[.!?;\n]+(?=[\s)\"]|$)|\n")
CLAUSE_EDGE = re.compile(r"[.!?;:\n,()\0]|\bbut\b|\bhowever\b|\balthough\b")
TURNING = re.compile(
    r"\b(?:but|however|though|although|except|unless|while|whereas|because|since|then|instead|fine|ok|okay|enough|"
    r"love[ds]?|enjoy\w*|prefer\w*|mind|want|looking|recommend\w*|suggest\w*|"
    r"(?<!stuff )(?<!things )(?<!anything )(?<!movies )(?<!films )(?<!scenes )like[ds]?)\b|[.!?;\n]"
)
ANAPHOR = re.compile(r"\W*(?:\w+\W+){0,4}?(?:it|that|they|this|those|these|them|both|one|i|i'm|i've|im)\b")
REFUSES = re.compile(r"(?:no|not|n't|never|can'?t|cannot|won'?t|don'?t|without|unable|dont|refuse)\b|.*\bcan'?t\b")
UNABLE = re.compile(r"can't|cant|cannot|could|unable|not able|(?:get|got|have|had)s?\b")
SAME_SUBJECT = re.compile(r"\b(?:and|but|or|so|then)(?: \w+ly| just| still| also| now)?\s+$")  # "he left, and can't"
SHUNS = re.compile(r"(?:avoid|skip|keep|stay|steer|filter|leave)")
DENIED = re.compile(
    r"(?:\bwill not|\bwon't|\bwont|\bnot|n't|\bnever|\bno longer|\bhardly|\brarely|\bnothing|\bisnt|"
    r"\bno (?:need|reason) to|\bnever have to)\s+(?:\w+\s+){0,2}$"
)
SAYS_NOT = re.compile(r"(?:i'm|im|i|we're|we|i am|we are) (?:not|never|hardly)\b|i don't (?:get|feel)\b")
ABSENT = re.compile(r"\b(?:no|not|never|without|nobody|n't)\s+(?:\w+\s+){0,2}$")
DEGREE = re.compile(r"(?:too|so|way|far|just|very|really|bit|little|scary|gory|not|no|nothing)\b")
ASKS = re.compile(r"\W*(?:is|are|was|were|does|do|did|how|has|have|would)\b")
SELF = re.compile(r"\b(?:i|im|ive|me|my|mine|myself|we|us|our)\b")
OTHERS_WHO = re.compile(
    r"(?<!one of )(?<!one of those )(?<!one of the )\b(?:people|those|folks|others|viewers|everyone|anyone)\s*$"
)
GROUP = re.compile(r"\b(?:family|kids|children|group|friends|class|club|students|residents|guests|parents|boys|girls)$")
LIST_PAUSE = re.compile(r",(?!.*,)(.*)", re.S)
