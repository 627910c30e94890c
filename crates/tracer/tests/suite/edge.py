# Hard cases for the recorder. Usage: edge.py CASE, in the directory that is recorded; $OUTER is
# another one on the same file system.
import ctypes, errno, fcntl, mmap, os, socket, struct, subprocess, sys, threading

libc = ctypes.CDLL(None, use_errno=True)
OUTER = os.environ['OUTER']
HERE = -100
RW = os.O_CREAT | os.O_RDWR


def make(name, flags=os.O_CREAT | os.O_WRONLY):
    return os.open(name, flags, 0o600)


def put(name, text):
    with open(name, 'w') as f:
        f.write(text)


def done(result):
    assert result == 0, ctypes.get_errno()


def passed():
    a, b = socket.socketpair()
    f = make('scm', RW)
    if os.fork() == 0:
        _, fds, _, _ = socket.recv_fds(b, 1, 1)
        os.write(fds[0], b'child through SCM_RIGHTS\n')
        os._exit(0)
    socket.send_fds(a, [b'x'], [f])
    os.wait()
    g = os.dup(f)
    os.write(g, b'parent by dup, shared offset\n')
    if os.fork() == 0:
        os.write(f, b'forked, shared offset\n')
        os._exit(0)
    os.wait()


def vectors():
    f = make('vec', RW)
    os.write(f, b'0123456789' * 5)
    os.pwritev(f, [b'AA', b'BB'], 5, os.RWF_DSYNC)
    os.pwritev(f, [b'CC'], 0, os.RWF_SYNC)
    os.pwritev(f, [b'end'], 3, 16)
    os.writev(f, [b'x', b'y' * 300000])
    h = make('app', os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    os.write(h, b'12345')
    os.pwrite(h, b'at the end all the same', 0)
    os.writev(h, [b'x', b'y'])
    s = make('dsync', os.O_CREAT | os.O_WRONLY | os.O_DSYNC)
    os.write(s, b'durable')


def unnamed():
    t = os.open('.', os.O_TMPFILE | os.O_RDWR, 0o600)
    os.write(t, b'unnamed, then linked')
    done(libc.linkat(HERE, b'/proc/self/fd/%d' % t, HERE, b'named', 0x400))
    for i in range(20):
        u = os.open('.', os.O_TMPFILE | os.O_WRONLY, 0o600)
        os.write(u, b'never linked')
        os.close(u)
        put('after%d' % i, 'a file after it')


def copies():
    put('from', 'abcdefghijklmnopqrstuvwxyz' * 10)
    r, t = os.open('from', os.O_RDONLY), make('to', RW)
    os.copy_file_range(r, t, 20, 0, 30)
    os.copy_file_range(r, t, 20)
    w = make('sent')
    os.sendfile(w, r, 3, 25)
    os.sendfile(w, r, 0, 10)
    r1, w1 = os.pipe()
    os.write(w1, b'through a pipe by splice')
    os.splice(r1, w, 10)
    os.splice(r1, w, 10, offset_dst=100)


def allocations():
    k = make('fal', RW)
    os.write(k, bytes(i % 251 for i in range(20000)))
    modes = (0, 0, 30000), (1, 0, 50000), (3, 4096, 4096), (16, 9000, 3000), (17, 29000, 9000)
    for mode, at, n in modes:
        done(libc.fallocate(k, mode, ctypes.c_long(at), ctypes.c_long(n)))
    os.truncate('fal', 12345)
    os.ftruncate(k, 100000)


def direct():
    try:
        f = make('direct', RW | os.O_DIRECT)
    except OSError as error:
        return print('no O_DIRECT', error)
    page = mmap.mmap(-1, 20480)
    page.write(b'direct' * 3413)
    os.pwrite(f, page, 0)
    os.pwrite(f, memoryview(page)[:4096], 8192)


def moves():
    # `fallocate` moves what is behind a place; some file systems have neither mode.
    k = make('moved', RW)
    os.write(k, bytes(i % 251 for i in range(20000)))
    for mode, at, n in (8, 4096, 4096), (32, 8192, 4096):
        if libc.fallocate(k, mode, ctypes.c_long(at), ctypes.c_long(n)):
            print('no mode', mode)


def names():
    os.mkdir('d1')
    os.mkdir('d2')
    put('d1/one', 'one')
    put('d2/two', 'two')
    done(libc.renameat2(HERE, b'd1/one', HERE, b'd2/two', 2))
    done(libc.renameat2(HERE, b'd1', HERE, b'd2/sub', 1))
    assert libc.renameat2(HERE, b'd2/sub', HERE, b'd2/two', 1) != 0
    os.symlink('d2/target', 'sym')
    put('sym', 'written through a symbolic link')
    os.link('d2/target', 'hard')
    os.rename('hard', 'd2/target')
    os.unlink('hard')
    os.truncate('sym', 9)
    dfd = os.open('d2', os.O_RDONLY)
    os.write(os.open('rel at', os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=dfd), b'a space')
    os.unlink('sub/one', dir_fd=dfd) if os.path.exists('d2/sub/one') else None
    os.mkdir('d2/../d3/')
    os.rename('d2/sub/', 'd3/moved/')
    put('d3/over', 'x')
    os.rename('d2/two', 'd3/over')
    os.chdir('d3')
    put('moved/../here', 'relative to the working directory')
    os.mkfifo('fifo', 0o640)
    s = socket.socket(socket.AF_UNIX)
    s.bind('socket')


def border():
    put(OUTER + '/file', 'from outside')
    os.rename(OUTER + '/file', 'inside')
    put('leave', 'x')
    os.rename('leave', OUTER + '/left')
    os.makedirs(OUTER + '/tree/a/b')
    put(OUTER + '/tree/a/f', 'deep')
    os.link(OUTER + '/tree/a/f', OUTER + '/tree/a/g')
    os.symlink('f', OUTER + '/tree/a/s')
    os.rename(OUTER + '/tree', 'tree')
    put('tree/a/b/more', 'written inside')
    put('tree/a/g', 'written through the other name')
    os.rename('tree/a', OUTER + '/a')
    put(OUTER + '/a/f', 'not seen')
    put('x', 'inner')
    put(OUTER + '/y', 'outer')
    done(libc.renameat2(HERE, b'x', HERE, (OUTER + '/y').encode(), 2))
    put(OUTER + '/linked', 'linked into it')
    os.link(OUTER + '/linked', 'link')
    put(OUTER + '/linked', 'and written outside')
    put('over', 'replaced from outside')
    put(OUTER + '/new', 'new')
    os.rename(OUTER + '/new', 'over')


def reused():
    for i in range(50):
        q = make('tmp', RW)
        os.write(q, b'%d' % i)
        os.unlink('tmp')
        os.write(q, b'more')
        os.close(q)
        os.mkdir('dir')
        os.rmdir('dir')
    put('last', 'kept')


def mapping():
    m = make('map', RW)
    os.ftruncate(m, 65536)
    mm = mmap.mmap(m, 65536)
    mm[100:104] = b'sync'
    mm.flush()
    mm[40000:40005] = b'never'
    mm2 = mmap.mmap(m, 65536)
    mm2[1:3] = b'hi'
    os.fsync(m)
    mm2[65535:65536] = b'z'
    os.pwrite(m, b'by a call', 50000)
    os.ftruncate(m, 60000)
    mm[59999:60000] = b'e'
    if os.fork() == 0:
        mm[7:8] = b'c'
        os._exit(0)
    os.wait()
    os.ftruncate(m, 70000)
    with open(os.environ['SEEKLESS_ACKS'], 'a') as acks:
        mm[5000:5003] = b'ack'
        acks.write('mapped\n')


def threads():
    def go(j):
        fd = make('threads', os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        for i in range(100):
            os.write(fd, b'thread %d line %d\n' % (j, i))
            if i % 20 == 0:
                os.fsync(fd)
                put('own%d' % j, 'x' * i)
                os.rename('own%d' % j, 'shared')
    all = [threading.Thread(target=go, args=(j,)) for j in range(6)]
    [t.start() for t in all]
    [t.join() for t in all]


def shell():
    subprocess.run('exec 3>>shell; echo a >&3; (echo b >&3) & wait; echo c >&3; cat shell > copy; '
                   'mkdir -p x/y/z; mv x/y x/w; rm -r x/w/z; ln -sf nowhere x/l; cp -a x d3; '
                   'mkfifo p; (sleep 0.2; cat p > got) & echo through > p; wait; '
                   'yes | head -c 200000 | dd of=big bs=1000 status=none',
                   shell=True, check=True)
    os.sync()


def attributes():
    f = make('f', RW)
    os.chmod('f', 0o4751)
    os.fchmod(f, 0o640)
    os.utime('f', (1, 2))
    os.utime(f)
    try:
        os.setxattr('f', 'user.one', b'1')
        os.setxattr(f, 'user.two', b'2' * 1000)
        os.setxattr('f', 'user.one', b'another')
        os.removexattr(f, 'user.two')
    except OSError as error:
        print('no attributes', error)
    os.mkdir('d', 0o700)
    os.chmod('d', 0o2711)
    os.symlink('f', 's')
    os.chmod('s', 0o444)
    if os.getuid() == 0:
        os.chown('f', 3, 4)
        os.lchown('s', 5, 6)
        os.fchown(f, -1, 7)
        os.chmod('f', 0o6755)
        os.chown('f', 8, -1)
    put('own', 'x')
    os.chmod('own', 0o4755)
    os.write(os.open('own', os.O_WRONLY), b'y')


def write_only():
    f = os.open('w', os.O_CREAT | os.O_WRONLY, 0o600)
    for i in range(10):
        os.write(f, b'%d\n' % i)
    os.fdatasync(f)
    os.dup2(f, 77)
    os.close(f)
    os.write(77, b'another number')


def clones():
    put('a', 'x' * 100000)
    a, b = os.open('a', os.O_RDONLY), make('b', RW)
    try:
        fcntl.ioctl(b, 0x40049409, a)
        fcntl.ioctl(b, 0x4020940d, struct.pack('qQQQ', a, 4096, 4096, 8192))
    except OSError as error:
        assert error.errno == errno.EOPNOTSUPP, error


def blocked():
    # A splice, and an open of a pipe, wait for what this process writes to other files first.
    r, w = os.pipe()
    if os.fork() == 0:
        os.splice(r, make('spliced'), 100)
        os.open('fifo', os.O_WRONLY | os.O_CREAT, 0o600)
        os._exit(0)
    os.mkfifo('fifo')
    import time
    time.sleep(0.1)
    put('first', 'x')
    os.write(w, b'late')
    time.sleep(0.1)
    put('second', 'x')
    os.open('fifo', os.O_RDONLY)
    os.wait()


def execs():
    # A thread that does not lead its process runs another program, while others write.
    def write(j):
        while True:
            put('w%d' % j, 'x')
    for j in range(3):
        threading.Thread(target=write, args=(j,), daemon=True).start()
    command = 'sleep 0.05; echo after > exec; rm -f w0'
    threading.Thread(target=lambda: os.execv('/bin/sh', ['sh', '-c', command])).start()
    while True:
        put('main', 'y')


def killed():
    # Processes that are killed at any point of a change.
    import random, signal, time
    put('other', 'o')
    for i in range(60):
        pid = os.fork()
        if pid == 0:
            a = make('append', os.O_CREAT | os.O_APPEND | os.O_WRONLY)
            f = make('file', RW)
            while True:
                put('one', 'x' * 5000)
                os.rename('one', 'two')
                os.link('two', 'one')
                os.write(a, b'appended')
                os.write(f, b'y' * 3000)
                os.pwrite(f, b'%d' % i, i)
                os.writev(f, [b'z' * 5, b'a'])
                os.truncate('file', 10000)
                os.mkdir('dir')
                os.chmod('dir', 0o700)
                libc.renameat2(HERE, b'one', HERE, b'other', 2)
                os.unlink('one')
                os.rmdir('dir')
        time.sleep(0.002 + random.random() * 0.004)
        os.kill(pid, signal.SIGKILL)
        os.wait()
        for name in 'one', 'dir':
            if os.path.isdir(name):
                os.rmdir(name)
            elif os.path.exists(name):
                os.unlink(name)


def protected():
    # A file that is mapped to read, and made writable later.
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    f = make('protected', RW)
    os.write(f, b'x' * 20000)
    at = libc.mmap(None, 20000, 1, 1, f, 0)
    os.pwrite(f, b'by a call', 5)
    os.fsync(f)
    done(libc.mprotect(at + 4096, 4096, 3))
    ctypes.memmove(at + 5000, b'stored', 6)
    os.fsync(f)


def storm():
    # Processes that make the same names lead to other things all the time, and are killed.
    import random, signal, time
    names = ['n%d' % i for i in range(8)]

    def step(r):
        a, b, flags = r.choice(names), r.choice(names), r.choice([0, os.O_APPEND, os.O_TRUNC])

        def write():
            f = os.open(a, RW | flags, 0o644)
            os.write(f, os.urandom(r.randrange(9000)))
            os.pwrite(f, b'pp', r.randrange(20000))
            os.close(f)
        r.choice([
            write, write, write,
            lambda: os.rename(a, b), lambda: os.unlink(a), lambda: os.link(a, b),
            lambda: os.mkdir(a), lambda: os.rmdir(a), lambda: os.symlink(b, a),
            lambda: os.truncate(a, r.randrange(30000)), lambda: os.chmod(a, 0o750),
            lambda: os.rename(a, b + '/' + a), lambda: os.rename(b + '/' + a, a),
        ])()

    def work(seed):
        r = random.Random(seed)
        while True:
            try:
                step(r)
            except OSError:
                pass

    children = []
    for seed in range(40):
        pid = os.fork()
        if pid == 0:
            work(seed)
        children.append(pid)
        time.sleep(0.02)
        while len(children) > (0 if seed == 39 else 3):
            os.kill(children[0], signal.SIGKILL)
            os.waitpid(children.pop(0), 0)


def sparse():
    m = make('sparse', RW)
    os.ftruncate(m, 1 << 40)
    mm = mmap.mmap(m, 1 << 30, offset=1 << 38)
    mm[12345678:12345682] = b'deep'
    mm.flush(12288 * 1000, 4096 * 20)
    os.fsync(m)
    os.pwrite(m, b'by a call', 1 << 39)
    mm[0:1] = b'a'


globals()[sys.argv[1]]()
