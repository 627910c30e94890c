#!/usr/bin/env python3
"""Compares kernel file systems with the models of seekless-calls, by random short workloads.

sequences.py search --seekless BIN --trees BIN [--fs ext4] [--seconds 900] [--seed 1] --out DIR
    runs random sequences; each tree that the kernel left must be one that the model allows
sequences.py one|minimise --seekless BIN --trees BIN [--fs ext4] --out DIR 'write a 0 9; fsync a'
    runs one sequence, or leaves out of it what a disallowed tree does not need
sequences.py again|needed --trees BIN [--fs ext4] --out DIR
    compares the results in DIR with the models as they are now, or for each rule counts the
    sequences of which the weaker model allows more, and those of which the kernel left such a tree

A sequence runs on the kernel with a journal commit each second (`wait` is longer), and again under
the recorder of system calls. `trees` (examples/trees.rs) prints all trees of the model."""
import argparse, ctypes, itertools, json, os, random, subprocess, sys, time

ME = os.path.abspath(__file__)
SETUP = "mkdir d; write a 0 100; write b 0 5000; write d/a 0 4096; sync"
NAMES = ["a", "b", "c", "d/a", "d/b"]
RULES = {"ext4": ["MetadataInOrder", "ReplaceNeedsSize", "PagesAreWhole", "CutBeforeNewBytes"],
         "xfs": ["MetadataInOrder", "SizeNeedsBytes", "PagesAreWhole", "CutBeforeNewBytes"]}


def perform(top, words, letter):
    """Does one call. A failed call is a call that changes nothing."""
    what, rest = words[0], words[1:]
    path = lambda name: os.path.join(top, "" if name == "." else name)
    if what == "wait":
        time.sleep(0 if os.environ.get("NO_WAIT") else 2.2)
    elif what == "sync":
        os.sync()
    elif what in ("rename", "link"):
        getattr(os, what)(path(rest[0]), path(rest[1]))
    elif what in ("unlink", "mkdir"):
        getattr(os, what)(path(rest[0]))
    else:
        flags = os.O_RDONLY if what in ("fsync", "fdatasync") else os.O_RDWR
        flags |= os.O_CREAT if what in ("create", "write", "append", "empty") else 0
        flags |= os.O_TRUNC if what == "empty" else 0
        file = os.open(path(rest[0]), flags, 0o644)
        if what == "write":
            os.pwrite(file, letter * int(rest[2]), int(rest[1]))
        elif what == "append":
            os.pwrite(file, letter * int(rest[1]), os.fstat(file).st_size)
        elif what == "truncate":
            os.ftruncate(file, int(rest[1]))
        elif what in ("fsync", "fdatasync"):
            getattr(os, what)(file)
        elif what == "flush":  # starts write-back, makes nothing durable
            ctypes.CDLL(None).sync_file_range(file, ctypes.c_int64(0), ctypes.c_int64(0), 2)
        elif what in ("punch", "zero", "allocate"):
            mode, numbers = {"punch": 3, "zero": 16, "allocate": 0}[what], map(int, rest[1:])
            ctypes.CDLL(None).fallocate(file, mode, *map(ctypes.c_int64, numbers))
        os.close(file)


def run(top, text, is_setup=False):
    for number, part in enumerate(text.split(";")):
        letter = (b"abcdefgh" if is_setup else b"ABCDEFGHIJKLMNOP")[number:number + 1]
        try:
            perform(top, part.split(), letter)
        except OSError:
            pass
        if not is_setup:
            with open(os.environ["SEEKLESS_ACKS"], "a") as acks:
                acks.write(f"{number + 1}\n")


def tree(top):
    """The tree in one line, as `trees` prints it."""
    found = {}
    for at, directories, files in os.walk(top):
        for name in directories + files:
            path = os.path.join(at, name)
            found[os.path.relpath(path, top)] = path
    found.pop("lost+found", None)
    parts, first = [], {}
    for name in sorted(found):
        if os.path.isdir(found[name]):
            parts.append(name + "/")
            continue
        inode = os.stat(found[name]).st_ino
        if inode in first:
            parts.append(f"{name}@{first[inode]}")
            continue
        first[inode] = name
        with open(found[name], "rb") as file:
            data = file.read()
        runs = ((byte, len(list(same))) for byte, same in itertools.groupby(data))
        runs = " ".join(f"{chr(byte) if byte else '.'}{count}" for byte, count in runs)
        parts.append(f"{name}={len(data)}:{runs}")
    return "; ".join(parts)


def check(top, out, count):
    """Notes the tree. The probe with the disk as it was before the workload must fail."""
    acked, now = int(os.environ.get("SEEKLESS_ACKED_COUNT") or 0), tree(top)
    with open(out, "a") as file:
        file.write(f"{acked}\t{now}\n")
    with open(out + ".start") as file:
        sys.exit(1 if acked == count and now == file.read() else 0)


def sequence(rng):
    """A random workload of at most 8 calls."""
    name, size = lambda: rng.choice(NAMES), lambda: rng.choice([10, 100, 3000, 4096, 5000])
    make = [
        (3, lambda: f"create {name()}"), (5, lambda: f"append {name()} {size()}"),
        (5, lambda: f"write {name()} {rng.choice([0, 0, 50, 4096])} {size()}"),
        (3, lambda: f"truncate {name()} {rng.choice([0, 0, 50, 4096, 6000])}"),
        (5, lambda: f"rename {name()} {name()}"), (2, lambda: f"link {name()} {name()}"),
        (2, lambda: f"unlink {name()}"), (1, lambda: "mkdir e"), (4, lambda: f"fsync {name()}"),
        (2, lambda: f"fsync {rng.choice(['.', 'd'])}"), (2, lambda: f"fdatasync {name()}"),
        (1, lambda: f"empty {name()}"),
        (1, lambda: f"rename {rng.choice('de')} {rng.choice('ce')}"),
        (3, lambda: f"{rng.choice(['punch', 'zero', 'allocate'])} {name()} "
                    f"{rng.choice([0, 50, 4096])} {rng.choice([30, 4096, 7000])}"),
        (1, lambda: "sync"), (3, lambda: "wait"), (3, lambda: f"flush {name()}"),
    ]
    weights = [weight for weight, _ in make]
    calls = [call() for _, call in rng.choices(make, weights, k=rng.randint(3, 7))]
    return "; ".join(calls + [rng.choice(["wait", "fsync d/b", "fsync a"])])


def kernel(args, text, place):
    """All trees that the kernel leaves, with the acknowledgements before."""
    out, count = os.path.join(place, "trees"), text.count(";") + 1
    start = os.path.join(place, "start")
    os.makedirs(start)
    run(start, SETUP, True)
    with open(out + ".start", "w") as file:
        file.write(tree(start))
    size = {"ext4": "16M", "xfs": "300M"}[args.fs]
    options = ["--mount-options", "commit=1"] if args.fs == "ext4" else []
    command = [args.seekless, "crash-test", "--fs", args.fs, "--size", size, "--share-machine"]
    command += options + ["--budget", "40s", "--dir", os.path.join(place, "kernel")]
    command += ["--setup", f"python3 -SE {ME} setup {{dir}}"]
    command += ["--run", f"python3 -SE {ME} run {{dir}} '{text}'"]
    command += ["--check", f"python3 -SE {ME} check {{dir}} {out} {count}"]
    done = subprocess.run(command, capture_output=True, text=True)
    with open(os.path.join(place, "kernel.log"), "w") as file:
        file.write(done.stdout + done.stderr)
    subprocess.run(["rm", "-rf", os.path.join(place, "kernel")])
    if not os.path.exists(out):
        return set()
    lines = {tuple(line.rstrip("\n").split("\t")) for line in open(out)}
    # The probe with the disk as it was before is no state.
    return lines - {(str(count), open(out + ".start").read())}


def record(args, text, place):
    """Records the system calls; the path of the recording."""
    command = [args.seekless, "crash-test", "--model", "ext4", "--check", "true {dir}"]
    command += ["--setup", f"python3 -SE {ME} setup {{dir}}", "--samples", "1", "--exhaustive", "1"]
    command += ["--run", f"NO_WAIT=1 python3 -SE {ME} run {{dir}} '{text}'"]
    command += ["--dir", os.path.join(place, "model")]
    subprocess.run(command, capture_output=True)
    return os.path.join(place, "model", "run.calls")


def allowed(args, calls, *rule):
    done = subprocess.run([args.trees, calls, args.fs, *rule], capture_output=True, text=True)
    if done.returncode:
        return None
    return {tuple(line.split("\t")) for line in done.stdout.splitlines()}


def one(args, text, number):
    """Runs a sequence on the kernel and under the model; what the model does not allow."""
    place = os.path.join(args.out, f"{number:05}")
    os.makedirs(place)
    seen, calls = kernel(args, text, place), record(args, text, place)
    model = allowed(args, calls)
    bad = sorted(seen - model) if model is not None else []
    result = {"text": text, "seen": len(seen), "model": model and len(model), "bad": bad}
    print(json.dumps(result), flush=True)
    with open(os.path.join(place, "result.json"), "w") as file:
        json.dump({**result, "trees": sorted(seen)}, file)
    return bad


def minimise(args, text, number):
    """Leaves out calls as long as the kernel leaves a tree that the model does not allow."""
    parts, at = [part.strip() for part in text.split(";")], 0
    while at < len(parts) and len(parts) > 1:
        fewer, number = parts[:at] + parts[at + 1:], number + 1
        if one(args, "; ".join(fewer), number):
            parts = fewer
        else:
            at += 1
    print("minimised:", "; ".join(parts))


def results(args):
    """What `search` left: the recording of calls, and the result."""
    for at, _, files in sorted(os.walk(args.out)):
        calls = os.path.join(at, "model", "run.calls")
        if "result.json" in files and os.path.exists(calls):
            with open(os.path.join(at, "result.json")) as file:
                result = json.load(file)
            yield calls, {**result, "trees": {tuple(tree) for tree in result["trees"]}}


def again(args):
    """Compares what kernels left earlier with the models as they are now."""
    tried, seen, bad = 0, 0, 0
    for calls, result in results(args):
        model = allowed(args, calls)
        if model is not None:
            more = sorted(result["trees"] - model)
            tried, seen, bad = tried + 1, seen + len(result["trees"]), bad + bool(more)
            if more:
                print(json.dumps({"text": result["text"], "bad": more}))
    print(f"{tried} sequences, {seen} trees, {bad} sequences with trees that the model forbids")


def needed(args):
    """For each rule, how many sequences have trees that only the weaker model allows."""
    for rule in RULES[args.fs]:
        runs, more, shown, example = 0, 0, 0, None
        for calls, result in results(args):
            strong, weak = allowed(args, calls), allowed(args, calls, rule)
            if strong is None or weak is None:
                continue
            extra = weak - strong
            runs, more = runs + 1, more + bool(extra)
            shown += bool(extra & result["trees"])
            if extra and (example is None or len(result["text"]) < len(example[0])):
                example = (result["text"], min(extra, key=lambda tree: len(tree[1])))
        print(f"{rule}: {runs} runs, {more} with more trees, {shown} with one from the kernel;",
              example)


def main():
    if sys.argv[1] in ("setup", "run", "check"):
        what, top, *rest = sys.argv[1:]
        return {"setup": lambda: run(top, SETUP, True), "run": lambda: run(top, rest[0]),
                "check": lambda: check(top, rest[0], int(rest[1]))}[what]()
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["search", "one", "minimise", "again", "needed"])
    parser.add_argument("text", nargs="?")
    parser.add_argument("--out", required=True)
    for name, default in [("seekless", "seekless"), ("trees", "trees"), ("fs", "ext4")]:
        parser.add_argument("--" + name, default=default)
    parser.add_argument("--seconds", type=int, default=900)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_intermixed_args()
    number, end = args.seed * 10000, time.time() + args.seconds
    if args.what in ("again", "needed"):
        return again(args) if args.what == "again" else needed(args)
    if args.what in ("one", "minimise"):
        return (one if args.what == "one" else minimise)(args, args.text, number)
    rng = random.Random(args.seed)
    while time.time() < end:
        number += 1
        one(args, sequence(rng), number)


main()
