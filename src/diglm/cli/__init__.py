"""The command `diglm`: one command for each thing that a person does with a model.

`commands/` says what is asked and imports nothing heavy, so that help, completion and mistakes are
answered at once; `work/` does it and is imported when it is first used.
"""
