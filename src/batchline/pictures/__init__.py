"""Pictures of what the batcher did: one key's windows in the terminal and as SVG, and the page that holds them.

table ─► windows.picture_of ─► WindowsPicture ─┬─► terminal.draw
                                               └─► svg.svg ─► page.page
"""
