"""What a parcel costs, by the name of the price."""

import pytest

from batchline.core.consignment import Consignment
from batchline.core.pricing import price_of
from batchline.errors import InvalidRules

PAYLOAD = b'[{"ru":2},{"ru":0.5,"n":1},{"n":-4},{"ru":"7"},{"ru":true},{"ru":null},{"ru":NaN}]'
PARCEL = Consignment("p", "import", 0, 1, None, 7, "", "", PAYLOAD)


@pytest.mark.parametrize(
    ("cost", "price"),
    [
        ("parcel", 1),
        ("measurement", 7),
        ("byte", len(PAYLOAD)),
        ("field:ru", 2.5),
        ("field:n", 1),
        ("field:missing", 0),
        ("field:field:", 0),
    ],
)
def test_a_price_by_its_name(cost: str, price: float) -> None:
    assert price_of(cost)(PARCEL) == price


@pytest.mark.parametrize(
    ("cost", "said"),
    [("parcels", "did you mean 'parcel'"), ("bytes", "did you mean 'byte'"), ("", "field:NAME"), ("field:", "one of")],
)
def test_a_price_that_nobody_knows_is_refused_with_those_that_are(cost: str, said: str) -> None:
    with pytest.raises(InvalidRules, match=said):
        price_of(cost)
