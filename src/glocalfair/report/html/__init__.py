"""The report: one self-contained HTML page, and its figures as files, from run directories alone.

`load` reads the directories, `arms` puts the seeds of a method together, `verdict` says it in words, `charts` draws,
`page` puts it all into one file. Figures are drawn once, as SVG, in Python; the page's script only shows and hides
them, and shows a point's values.
"""
