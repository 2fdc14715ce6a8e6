"""Pictures of what was done: one key's windows in the terminal and as SVG, and the page that holds them.

table ─► windows.picture_of ─► WindowsPicture ─┬─► terminal.draw
                                               └─► svg.svg ─► page.page

Over time: `series` and how it is drawn, `series_terminal`, `series_svg`; amounts side by side: `bars`, `bars_svg`.
"""
