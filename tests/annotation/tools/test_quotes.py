"""Where a quote stands in a text."""

from annotation.tools.quotes import locate


def test_composed_and_decomposed_letters_are_alike_but_never_halved():
    cafe = [{"role": "seeker", "text": "the cafe\u0301 and the café"}]
    assert locate("café and", cafe)["quote"] == "cafe\u0301 and"
    assert locate("the café", [{"role": "seeker", "text": "the café"}])["end"] == 8
    assert locate("the  caf e", cafe) is None
    assert locate("a  cafe", [{"role": "seeker", "text": "a café"}]) is None
