"""What a command can do, Python can do in a line: `import steplab` offers these functions and objects.

`measuring` plans and runs studies, `results` opens their folders, `modelling` fits, compares and predicts, `sources`
reads what other programs wrote, `machine` is about this computer. The command line calls all of this and prints.
Nothing here prints, ends the process or takes a signal. `steplab/__init__.py` lists what `steplab` itself offers.
"""
