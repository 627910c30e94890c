#!/usr/bin/env python3
"""Compares kernel file systems with the models of seekless-calls, by random short workloads.

sequences.py search --seekless BIN --trees BIN [--fs ext4] [--seconds 900] [--seed 1] --out DIR
    runs random sequences; each tree that the kernel left must be one that the model allows
sequences.py one|minimise --seekless BIN --trees BIN [--fs ext4] --out DIR 'write a 0 9; fsync a'
    runs one sequence, or leaves out of it what a disallowed tree does not need
sequences.py again|needed --trees BIN [--fs ext4] --out DIR
    compares the results in DIR with the models as they are now, or for each rule counts the
    sequences of which the weaker model allows more, and those of which the kernel left such a tree
sequences.py store --trees BIN [--fs ext4] --out DIR > crates/calls/tests/kernels/ext4.txt
    prints the results in DIR as text; tests of the crate replay it without root

The exit code of `search` and `again` is 1 if the model forbids a tree, or none was seen.

A sequence runs on the kernel with a journal commit each second (`wait` is longer), and again under
the recorder of system calls. `--tune` sets the times of write-back and of the log of XFS during a
search, for the whole machine. `trees` (examples/trees) compares the trees with the model."""
import argparse, contextlib, ctypes, fcntl, itertools, json, mmap, os, random, shutil, signal, stat
import struct, subprocess, sys, tempfile, time

ME = os.path.abspath(__file__)
SETUP = "mkdir d; write a 0 100; write b 0 5000; write d/a 0 4096; sync"
NAMES = ["a", "b", "c", "d/a", "d/b"]
KERNELS = {  # of each model: the file system, the size of its disk, its mount options
    "ext4": ("ext4", "16M", "commit=1"),
    "xfs": ("xfs", "300M", ""),
    "btrfs": ("btrfs", "128M", "commit=1"),
}
# Modes of fallocate. The last two want whole blocks, and Btrfs has neither.
ALLOCATIONS = {"punch": 3, "zero": 16, "allocate": 0, "collapse": 8, "insert": 32}
FICLONE, FICLONERANGE = 0x40049409, 0x4020940D
# Write-back and the log of XFS begin after a second, so that a `wait` shows them.
TUNED = {"fs/xfs/xfssyncd_centisecs": "100", "vm/dirty_writeback_centisecs": "50",
         "vm/dirty_expire_centisecs": "50"}
ADMIN = {**os.environ, "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin"}


def write(file, at, data):
    """Writes through a buffer that begins a page, as O_DIRECT wants it."""
    buffer = mmap.mmap(-1, max(len(data), 1))
    buffer.write(data)
    os.pwritev(file, [memoryview(buffer)[:len(data)]], at)


def store_mapped(file, at, data, is_synced):
    """Stores into a shared mapping of the file, up to its end."""
    with mmap.mmap(file, 0) as view:
        end = min(at + len(data), len(view))
        view[at:end] = data[:max(end - at, 0)]
        if is_synced:
            from_page = at - at % 4096
            view.flush(from_page, len(view) - from_page)


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
    elif what == "exchange":
        names = [ctypes.c_char_p(path(name).encode()) for name in rest]
        ctypes.CDLL(None).renameat2(-100, names[0], -100, names[1], 2)
    elif what == "symlink":
        os.symlink(rest[0], path(rest[1]))
    elif what in ("unlink", "mkdir", "rmdir"):
        getattr(os, what)(path(rest[0]))
    elif what == "chmod":
        os.chmod(path(rest[0]), int(rest[1], 8))
    elif what == "setxattr":
        os.setxattr(path(rest[0]), "user.x", letter * int(rest[1]))
    elif what == "removexattr":
        os.removexattr(path(rest[0]), "user.x")
    elif what in ("copy", "clone", "clone-range"):
        source = os.open(path(rest[0]), os.O_RDONLY)
        target = os.open(path(rest[1]), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if what == "clone":
                fcntl.ioctl(target, FICLONE, source)
            else:
                from_at, to_at, length = map(int, rest[2:])
                if what == "copy":
                    os.copy_file_range(source, target, length, from_at, to_at)
                else:
                    wanted = struct.pack("qQQQ", source, from_at, length, to_at)
                    fcntl.ioctl(target, FICLONERANGE, wanted)
        finally:
            os.close(source)
            os.close(target)
    elif what == "unnamed":  # a file without a name that gets one
        file = os.open(path("."), os.O_RDWR | os.O_TMPFILE, 0o644)
        os.pwrite(file, letter * int(rest[1]), 0)
        os.link(f"/proc/self/fd/{file}", path(rest[0]), src_dir_fd=file, follow_symlinks=True)
        os.close(file)
    else:
        flags = os.O_RDONLY if what in ("fsync", "fdatasync") else os.O_RDWR
        flags |= os.O_CREAT if what in ("create", "write", "append", "empty", "sync-write",
                                        "dsync-write", "direct") else 0
        flags |= {"empty": os.O_TRUNC, "append": os.O_APPEND, "direct": os.O_DIRECT,
                  "sync-write": os.O_SYNC, "dsync-write": os.O_DSYNC}.get(what, 0)
        file = os.open(path(rest[0]), flags, 0o644)
        if what in ("write", "sync-write", "dsync-write", "direct"):
            write(file, int(rest[1]), letter * int(rest[2]))
        elif what == "append":
            os.write(file, letter * int(rest[1]))
        elif what in ("store", "msync"):
            store_mapped(file, int(rest[1]), letter * int(rest[2]), what == "msync")
        elif what == "truncate":
            os.ftruncate(file, int(rest[1]))
        elif what in ("fsync", "fdatasync"):
            getattr(os, what)(file)
        elif what == "flush":  # starts write-back, makes nothing durable
            at, length = map(int, rest[1:] or (0, 0))
            ctypes.CDLL(None).sync_file_range(file, ctypes.c_int64(at), ctypes.c_int64(length), 2)
        elif what in ALLOCATIONS:
            mode, numbers = ALLOCATIONS[what], map(int, rest[1:])
            ctypes.CDLL(None).fallocate(file, mode, *map(ctypes.c_int64, numbers))
        os.close(file)


def run(top, text, is_setup=False):
    for number, part in enumerate(text.split(";")):
        letter = (b"abcdefgh" if is_setup else b"ABCDEFGHIJKLMNOP")[number:number + 1]
        try:
            perform(top, part.split(), letter)
        except (OSError, ValueError):  # an empty file cannot be mapped
            pass
        if not is_setup:
            with open(os.environ["SEEKLESS_ACKS"], "a") as acks:
                acks.write(f"{number + 1}\n")


def runs(data):
    lengths = ((byte, len(list(same))) for byte, same in itertools.groupby(data))
    return " ".join(f"{chr(byte) if byte else '.'}{count}" for byte, count in lengths)


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
        path, status = found[name], os.lstat(found[name])
        is_directory = stat.S_ISDIR(status.st_mode)
        if not is_directory and status.st_ino in first:
            parts.append(f"{name}@{first[status.st_ino]}")
            continue
        first[status.st_ino] = name
        if stat.S_ISLNK(status.st_mode):
            parts.append(f"{name}>{os.readlink(path)}")
            continue
        part = name + "/"
        if not is_directory:
            with open(path, "rb") as file:
                data = file.read()
            part = f"{name}={len(data)}:{runs(data)}"
        mode = stat.S_IMODE(status.st_mode)
        if mode != (0o755 if is_directory else 0o644):
            part += f"|m{mode:o}"
        for attribute in os.listxattr(path):
            part += f"|{attribute}={runs(os.getxattr(path, attribute))}"
        parts.append(part)
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
    name = lambda: rng.choice(NAMES)
    size = lambda: rng.choice([10, 100, 3000, 4096, 5000, 10, 100, 3000, 4096, 5000, 20000, 65536])
    both = lambda: rng.choice(NAMES + ["d"])
    place, block = lambda: rng.choice([0, 0, 50, 4096]), lambda: rng.choice([0, 4096, 8192])
    make = [
        (3, lambda: f"create {name()}"), (5, lambda: f"append {name()} {size()}"),
        (5, lambda: f"write {name()} {rng.choice([0, 0, 50, 4096])} {size()}"),
        (3, lambda: f"truncate {name()} {rng.choice([0, 0, 50, 4096, 6000, 30000])}"),
        (5, lambda: f"rename {name()} {name()}"), (2, lambda: f"link {name()} {name()}"),
        (2, lambda: f"unlink {name()}"), (1, lambda: f"mkdir {rng.choice(['e', 'd/e'])}"),
        (4, lambda: f"fsync {name()}"),
        (2, lambda: f"fsync {rng.choice(['.', 'd', 'e'])}"), (2, lambda: f"fdatasync {name()}"),
        (1, lambda: f"empty {name()}"),
        (1, lambda: f"rename {rng.choice('de')} {rng.choice('ce')}"),
        (1, lambda: f"mkdir e; rename {rng.choice('de')} {rng.choice(['e', 'd/e'])}"),
        (1, lambda: f"rmdir {rng.choice(['d', 'e', 'd/e'])}"),
        (3, lambda: f"{rng.choice(['punch', 'zero', 'allocate'])} {name()} "
                    f"{rng.choice([0, 50, 4096])} {rng.choice([30, 4096, 7000, 30000])}"),
        (1, lambda: "sync"), (3, lambda: "wait"), (3, lambda: f"flush {name()}"),
        (2, lambda: f"flush {name()} 4096 4096"),
        (2, lambda: f"chmod {both()} {rng.choice(['600', '640', '755'])}"),
        (2, lambda: f"setxattr {both()} {rng.choice([3, 3, 300])}"),
        (1, lambda: f"removexattr {both()}"),
        (2, lambda: f"store {name()} {rng.choice([0, 50, 4096])} {size()}"),
        (2, lambda: f"msync {name()} {rng.choice([0, 50, 4096])} {size()}"),
        (2, lambda: f"direct {name()} {rng.choice([0, 4096])} {rng.choice([4096, 8192, 20480])}"),
        (2, lambda: f"{rng.choice(['sync-write', 'dsync-write'])} {name()} "
                    f"{rng.choice([0, 50, 4096])} {size()}"),
        (1, lambda: f"link {name()} c; unlink {name()}"), (1, lambda: f"symlink a {name()}"),
        (3, lambda: f"copy {name()} {name()} {place()} {place()} {size()}"),
        (2, lambda: f"clone {name()} {name()}"),
        (2, lambda: f"clone-range {name()} {name()} {block()} {block()} {block() or 4096}"),
        (3, lambda: f"{rng.choice(['collapse', 'insert'])} {name()} {block()} {block() or 4096}"),
        (1, lambda: f"exchange {name()} {both()}"), (1, lambda: f"unnamed {name()} {size()}"),
    ]
    weights = [weight for weight, _ in make]
    calls = "; ".join(call() for _, call in rng.choices(make, weights, k=rng.randint(3, 7)))
    return "; ".join(calls.split("; ")[:7] + [rng.choice(["wait", "fsync d/b", "fsync a"])])


def kernel(args, text, place):
    """All trees that the kernel leaves, with the acknowledgements before."""
    out, count = os.path.join(place, "trees"), text.count(";") + 1
    start = os.path.join(place, "start")
    os.makedirs(start)
    run(start, SETUP, True)
    with open(out + ".start", "w") as file:
        file.write(tree(start))
    fs, size, options = KERNELS[args.fs]
    command = [args.seekless, "crash-test", "--fs", fs, "--size", size, "--share-machine"]
    command += ["--mount-options", options] if options else []
    command += ["--budget", "40s", "--dir", os.path.join(place, "kernel")]
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
    # Which calls succeed depends on the file system.
    with tempfile.TemporaryDirectory(dir=os.path.join(args.out, "own")) as own:
        subprocess.run([*command, "--dir", own], capture_output=True)
        calls = os.path.join(place, "model", "run.calls")
        os.makedirs(os.path.dirname(calls))
        if os.path.exists(os.path.join(own, "run.calls")):
            shutil.copy(os.path.join(own, "run.calls"), calls)
    return calls


@contextlib.contextmanager
def recorded_on(args):
    """Mounts a file system of the same kind as `own`, for recordings."""
    own, image = os.path.join(args.out, "own"), os.path.join(args.out, "own.img")
    os.makedirs(own)
    with open(image, "w") as file:
        file.truncate(512 << 20)
    subprocess.run([f"mkfs.{KERNELS[args.fs][0]}", "-q", image], check=True, env=ADMIN)
    subprocess.run(["mount", "-o", "loop", image, own], check=True, env=ADMIN)
    try:
        yield
    finally:
        subprocess.run(["umount", own], check=True, env=ADMIN)
        os.remove(image)
        os.rmdir(own)


def trees(args, *words):
    """The lines that `trees` prints; None if it fails, or has too much to try."""
    try:
        done = subprocess.run([args.trees, *words], capture_output=True, text=True, timeout=20)
    except subprocess.TimeoutExpired:
        return None
    return None if done.returncode else done.stdout.splitlines()


def allowed(args, calls, *rule):
    """All trees of the model; None if there are too many to try."""
    lines = trees(args, calls, args.fs, *rule)
    return None if lines is None else {tuple(line.split("\t")) for line in lines}


def forbidden(args, calls, seen, *rule):
    """Those of the trees that the model does not allow; None without a recording."""
    with tempfile.NamedTemporaryFile("w", suffix=".trees") as file:
        file.writelines(f"{count}\t{tree}\n" for count, tree in sorted(seen))
        file.flush()
        return trees(args, calls, args.fs, *rule, "--seen", file.name)


def one(args, text, number):
    """Runs a sequence on the kernel and under the model; what the model does not allow."""
    place = os.path.join(args.out, f"{number:08}")
    os.makedirs(place)
    seen, calls = kernel(args, text, place), record(args, text, place)
    bad = forbidden(args, calls, seen)
    print(json.dumps({"number": number, "text": text, "seen": len(seen), "bad": bad}), flush=True)
    with open(os.path.join(place, "result.json"), "w") as file:
        json.dump({"text": text, "trees": sorted(seen)}, file)
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
    """Compares what kernels left earlier with the models as they are now; true if all is allowed."""
    tried, seen, bad = 0, 0, 0
    for calls, result in results(args):
        more = forbidden(args, calls, result["trees"])
        if more is not None:
            tried, seen, bad = tried + 1, seen + len(result["trees"]), bad + bool(more)
            if more:
                print(json.dumps({"text": result["text"], "bad": more}))
    print(f"{tried} sequences, {seen} trees, {bad} sequences with trees that the model forbids")
    return tried > 0 and bad == 0


def needed(args):
    """For each rule, how many sequences have trees that only the weaker model allows."""
    for rule in args.rules.split(","):
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


def store(args):
    """Prints the results as text that the tests of the crate replay."""
    print(f"# What {KERNELS[args.fs][0]} of Linux {os.uname().release.split('-')[0]} left.")
    start, known = None, set()
    for calls, result in results(args):
        told = trees(args, calls, "--told")
        if not told or not result["trees"] or result["text"] in known:
            continue
        known.add(result["text"])
        behind = told.index("begin")
        if start is None:
            start = told[:behind]
            print("\nstart", *start, sep="\n")
        assert start == told[:behind], calls
        counts = {}
        for count, tree in sorted(result["trees"], key=lambda seen: int(seen[0])):
            counts.setdefault(tree, []).append(count)
        lines = [f"tree {','.join(counts)} {tree}" for tree, counts in counts.items()]
        print(f"\nsequence {result['text']}", *told[behind:], *lines, sep="\n")


@contextlib.contextmanager
def tuned(values):
    """Sets values of the kernel, and puts the old ones back."""
    path, old = lambda key: os.path.join("/proc/sys", key), {}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # or the values would stay
    for key in [key for key in values if os.path.exists(path(key))]:
        with open(path(key)) as file:
            old[key] = file.read()
        with open(path(key), "w") as file:
            file.write(values[key])
    try:
        yield
    finally:
        for key, value in old.items():
            with open(path(key), "w") as file:
                file.write(value)


def main():
    if sys.argv[1] in ("setup", "run", "check"):
        what, top, *rest = sys.argv[1:]
        return {"setup": lambda: run(top, SETUP, True), "run": lambda: run(top, rest[0]),
                "check": lambda: check(top, rest[0], int(rest[1]))}[what]()
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["search", "one", "minimise", "again", "needed",
                                         "store"])
    parser.add_argument("text", nargs="?")
    parser.add_argument("--out", required=True)
    for name, default in [("seekless", "seekless"), ("trees", "trees"), ("fs", "ext4"),
                          ("rules", "MetadataInOrder,SizeNeedsBytes,ReplaceNeedsContent,"
                           "ReplaceNeedsSize,PagesAreWhole,CutBeforeNewBytes")]:
        parser.add_argument("--" + name, default=default)
    parser.add_argument("--seconds", type=int, default=900)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--having", default="", help="only sequences with one of these calls")
    args = parser.parse_intermixed_args()
    number, end = args.seed * 10000, time.time() + args.seconds
    if args.what == "again":
        return not again(args)
    if args.what in ("needed", "store"):
        return {"needed": needed, "store": store}[args.what](args)
    rng, wanted = random.Random(args.seed), set(args.having.split(",")) - {""}
    with tuned(TUNED if args.tune else {}), recorded_on(args):
        if args.what in ("one", "minimise"):
            return (one if args.what == "one" else minimise)(args, args.text, number) and None
        while time.time() < end:
            text, number = sequence(rng), number + 1
            if not wanted or wanted & set(text.replace(";", "").split()):
                one(args, text, number)
    return not again(args)


sys.exit(main())
