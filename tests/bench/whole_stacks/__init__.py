# SPDX-License-Identifier: Apache-2.0
"""Whole stacks: how far the stacks of real programs reach in flightd's files and in perf's, taken in the same seconds.

place.py      where one program runs: its folder, its user, its processes
programs.py   the programs that are one process; servers.py: those that need clients; loads/: what they do
recorders.py  flightd, perf with frame pointers, perf with DWARF
samples.py    samples of a file, as `perf script` prints them
entry.py      which addresses are the beginning of a program or a thread
figures.py    the figures of a list of samples
measure.py    one program under all recorders
table.py      the result as Markdown
interruption.py  what a sample costs the sampled program: --cost
"""
