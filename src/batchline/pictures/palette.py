"""The colours of the pictures, for light and dark: plain classes, for not every viewer of SVG knows CSS variables."""

__all__ = ["SERIES_STYLE", "STYLE", "TYPE_COLOURS", "type_class"]

#: Ten colours that are told apart on white and on near-black; the next ten types have the same, hollow.
TYPE_COLOURS = (
    ("#2f6fd6", "#6ea8ff"),
    ("#d9680a", "#ff9d4d"),
    ("#17915a", "#3ecf8e"),
    ("#8250df", "#b794ff"),
    ("#0b8a99", "#38c6d6"),
    ("#cf3f86", "#ff7eb6"),
    ("#96622f", "#d2a06d"),
    ("#6f7d10", "#b9c94a"),
    ("#5f7288", "#9db2c8"),
    ("#a67c00", "#e6c02e"),
)

#: (selector, property, light, dark)
COLOURS = (
    (".paper", "fill", "#ffffff", "#12161c"),
    ("text", "fill", "#1c2430", "#e6e9ee"),
    (".quiet", "fill", "#66707c", "#98a2ae"),
    (".grid", "stroke", "#e7eaee", "#252c35"),
    (".rule", "stroke", "#b9c0c9", "#47515d"),
    (".window", "fill", "#e2f4e7", "#16301f"),
    (".window", "stroke", "#3f9d5c", "#3fae68"),
    (".waiting", "fill", "#f2f5f3", "#181f1c"),
    (".waiting", "stroke", "#9fb8a7", "#4b6a57"),
    (".unused", "fill", "#ffffff", "#12161c"),
    (".closed", "stroke", "#3f9d5c", "#3fae68"),
    (".halo", "stroke", "#ffffff", "#12161c"),
    (".bar .halo", "stroke", "#e2f4e7", "#16301f"),
    (".wire", "stroke", "#8a94a0", "#76808c"),
    (".late", "stroke", "#d1332a", "#ff7a70"),
    (".future", "stroke", "#c27a06", "#f5b52e"),
    (".duplicate", "stroke", "#85770a", "#d6c84f"),
    (".oversize", "stroke", "#b0338f", "#f27fd3"),
)


def type_class(index: int) -> str:
    """The class of the type with this number in the legend."""
    hollow = " hollow" if index // len(TYPE_COLOURS) % 2 else ""
    return f"t{index % len(TYPE_COLOURS)}{hollow}"


def _rules(shade: int) -> str:
    # Child selectors would be shorter; `.windows` keeps the rules off the page that a picture is embedded in.
    colours = [f".windows {selector}{{{name}:{shades[shade]}}}" for selector, name, *shades in COLOURS]
    types = [
        f".windows .t{index}{{fill:{pair[shade]};stroke:{pair[shade]}}}" for index, pair in enumerate(TYPE_COLOURS)
    ]
    reasons = [
        f".windows text.{selector[1:]}{{fill:{shades[shade]};stroke:none}}"
        for selector, _, *shades in COLOURS
        if selector in {".late", ".future", ".duplicate", ".oversize"}
    ]
    hollow = f".windows .hollow{{fill:{('#ffffff', '#12161c')[shade]}}}"
    return "".join([*colours, *types, *reasons, hollow])


STYLE = (
    ".windows{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;font-size:11px}"
    ".windows text{font-variant-numeric:tabular-nums}"
    ".windows .key{font-size:17px;font-weight:600}"
    ".windows .label{font-size:10px}"
    ".windows .halo{paint-order:stroke;stroke-width:2.5px;stroke-linejoin:round}"
    ".windows .window{stroke-width:1.2}"
    ".windows .waiting{stroke-width:1;stroke-dasharray:3 3}"
    ".windows .closed{stroke-width:2}"
    ".windows .wire{stroke-width:1;opacity:.75;fill:none}"
    ".windows .dot circle{stroke-width:1.5}"
    ".windows .mark{fill:none;stroke-width:2;stroke-linecap:round;stroke-linejoin:round}"
    f"{_rules(0)}@media (prefers-color-scheme:dark){{{_rules(1)}}}"
)

#: What a chart over time takes of the colours above.
SERIES_SELECTORS = (".paper", "text", ".quiet", ".grid", ".rule", ".halo", ".late")


def _series_rules(shade: int) -> str:
    colours = [
        f".series {selector}{{{name}:{shades[shade]}}}"
        for selector, name, *shades in COLOURS
        if selector in SERIES_SELECTORS
    ]
    pairs = list(enumerate(TYPE_COLOURS))
    areas = [f".series .area.t{index}{{fill:{pair[shade]}}}" for index, pair in pairs]
    curves = [f".series .curve.t{index}{{stroke:{pair[shade]}}}" for index, pair in pairs]
    late, paper = (
        next(shades[shade] for selector, _, *shades in COLOURS if selector == wanted) for wanted in (".late", ".paper")
    )
    shaded = f".series .stretch{{fill:{late};fill-opacity:.09}}"
    bad = f".series .refused{{fill:{late}}}.series text.late{{fill:{late};stroke:{paper}}}"
    return "".join([*colours, *areas, *curves, bad, shaded])


SERIES_STYLE = (
    ".series{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;font-size:11px}"
    ".series text{font-variant-numeric:tabular-nums}"
    ".series .area{stroke:none;fill-opacity:.78}"
    ".series .area.hollow{fill-opacity:.4}"
    ".series .curve{fill:none;stroke-width:1.8;stroke-linejoin:round}"
    ".series .curve.hollow{stroke-dasharray:4 2}"
    ".series .late{fill:none;stroke-width:1.4;stroke-dasharray:6 3}"
    ".series text.late{paint-order:stroke;stroke-width:3px;stroke-dasharray:none;stroke-linejoin:round}"
    ".series .band{fill-opacity:0}.series .band:hover{fill-opacity:.12}"
    f"{_series_rules(0)}@media (prefers-color-scheme:dark){{{_series_rules(1)}}}"
)
