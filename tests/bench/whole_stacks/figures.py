# SPDX-License-Identifier: Apache-2.0
"""The figures of the samples of one program, as one recorder saw them."""
import statistics

from .samples import UNKNOWN, split


def share(part, whole):
    return part / whole if whole else None


def reaches_entry(sample, frames, starts):
    """A frame in the start code ends the stack. What a frame-pointer walk finds beyond main()'s caller is garbage."""
    return any(starts.contain(sample.pid, frame) for frame in frames)


def of_stacks(stacks, starts):
    """Of (sample, its user frames). A frame in no file is garbage, except in code that a JIT compiler wrote."""
    every = [frame for _, frames in stacks for frame in frames]
    callers = [frame for _, frames in stacks for frame in frames[1:]]
    return {
        "samples": len(stacks),
        "depth": statistics.median(len(frames) for _, frames in stacks) if stacks else None,
        "reach_entry": share(sum(reaches_entry(sample, frames, starts) for sample, frames in stacks), len(stacks)),
        "frames_named": share(sum(frame.symbol != UNKNOWN for frame in every), len(every)),
        "leaves_named": share(sum(frames[0].symbol != UNKNOWN for _, frames in stacks), len(stacks)),
        "callers_in_no_file": share(sum(frame.file == UNKNOWN for frame in callers), len(callers)),
    }


def of_program(samples, starts):
    """Samples in user mode, and apart from them those in the kernel that have a user stack."""
    user, kernel = [], []
    for sample in samples:
        of_kernel, of_user = split(sample)
        if of_user:
            (kernel if of_kernel else user).append((sample, of_user))
    return {**of_stacks(user, starts), "in_kernel": of_stacks(kernel, starts)}
