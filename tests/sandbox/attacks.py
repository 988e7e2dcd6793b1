"""Tries to get out of the sandbox, one way after the other; prints `held` or `BROKE` for each."""

import ctypes
import os
import socket
import struct
import subprocess
import sys

outside, socket_path, abstract, pid = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
skipped = sys.argv[5:]
libc = ctypes.CDLL(None, use_errno=True)
machine = os.uname().machine
SYS = {"x86_64": {"ptrace": 101, "mount": 165, "unshare": 272, "bpf": 321, "keyctl": 250, "open_by_handle_at": 304,
                  "perf_event_open": 298, "process_vm_readv": 310, "setns": 308, "clone3": 435},
       "aarch64": {"ptrace": 117, "mount": 40, "unshare": 97, "bpf": 280, "keyctl": 219, "open_by_handle_at": 265,
                   "perf_event_open": 241, "process_vm_readv": 270, "setns": 268, "clone3": 435}}[machine]


def attack(name):
    def run(function):
        if name in skipped:
            return
        try:
            done = function()
        except (OSError, subprocess.CalledProcessError, ValueError) as error:
            print(f"{name}: held ({error})")
            return
        print(f"{name}: BROKE ({done})" if done else f"{name}: held")
    return run


def call(number, *arguments):
    result = libc.syscall(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return True


def write(path):
    with open(path, "w") as file:
        file.write("broken")
    return path


victim = os.path.join(outside, "victim")


@attack("write outside")
def _(): return write(victim)


@attack("write through a link")
def _():
    os.symlink(victim, "link")
    return write("link")


@attack("write through a hard link")
def _():
    os.link(victim, "hard")
    return write("hard")


@attack("write through ..")
def _(): return write(os.path.relpath(victim))


@attack("write through /proc/self/root")
def _(): return write("/proc/self/root" + victim)


@attack("write through /proc/1/root")
def _(): return write("/proc/1/root" + victim)


@attack("write through /proc/1/cwd")
def _(): return write(os.path.join("/proc/1/cwd", os.path.relpath(victim)))


@attack("rename over a file outside")
def _():
    write("mine")
    return os.rename("mine", victim) or "renamed"


@attack("remove a file outside")
def _(): return os.unlink(victim) or "removed"


@attack("change a mode outside")
def _(): return os.chmod(victim, 0o4777) or "changed"


@attack("make a device")
def _(): return os.mknod("device", 0o60666, os.makedev(8, 0)) or "made"


@attack("the kernel's settings")
def _():
    for path in ["/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/kernel/uevent_helper"]:
        with open(path, "r+"):
            return path


@attack("a disk")
def _():
    for name in ["/dev/sda", "/dev/vda", "/dev/nvme0n1", "/dev/mem", "/dev/kmsg"]:
        if os.path.exists(name):
            with open(name, "rb"):
                return name


@attack("mount")
def _(): return call(SYS["mount"], b"none", b"/tmp", b"tmpfs", 0, None)


@attack("remount")
def _(): return call(SYS["mount"], None, b"/", None, 32, None)


@attack("unshare")
def _(): return call(SYS["unshare"], 0x10000000)


@attack("clone3")
def _(): return call(SYS["clone3"], None, 0)


@attack("ptrace")
def _(): return call(SYS["ptrace"], 16, 1, 0, 0)


@attack("another process's memory")
def _(): return call(SYS["process_vm_readv"], 1, None, 0, None, 0, 0)


@attack("the launcher's memory")
def _():
    with open("/proc/1/mem", "r+b"):
        return "opened"


@attack("another process's variables")
def _():
    with open(f"/proc/{pid}/environ", "rb") as file:
        return file.read(1)


@attack("a signal to a process outside")
def _(): return os.kill(pid, 0) or "sent"


@attack("a signal to everybody outside")
def _():
    with open(f"/proc/{pid}/status"):
        return "seen"


@attack("io_uring")
def _(): return call(425, 1, ctypes.create_string_buffer(120))


@attack("bpf")
def _(): return call(SYS["bpf"], 0, ctypes.create_string_buffer(128), 128)


@attack("keyctl")
def _(): return call(SYS["keyctl"], 0, -3, 1)


@attack("perf")
def _(): return call(SYS["perf_event_open"], ctypes.create_string_buffer(128), 0, -1, -1, 0)


@attack("open by handle")
def _(): return call(SYS["open_by_handle_at"], -100, ctypes.create_string_buffer(128), 0)


@attack("typing into a terminal")
def _():
    import fcntl
    import pty
    _, slave = pty.openpty()
    fcntl.ioctl(slave, 0x5412, b"x")
    return "typed"


@attack("a setuid program")
def _():
    with open("/proc/self/status") as file:
        return "NoNewPrivs:\t1" not in file.read()


@attack("a raw socket")
def _(): return socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)


@attack("a packet socket")
def _(): return socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)


@attack("a virtual machine's socket")
def _(): return socket.socket(40, socket.SOCK_STREAM, 0)


@attack("an abstract socket")
def _(): return socket.socket(socket.AF_UNIX).connect("\0" + abstract) or "connected"


@attack("a socket at a path")
def _(): return socket.socket(socket.AF_UNIX).connect(socket_path) or "connected"


@attack("the time")
def _(): return call({"x86_64": 227, "aarch64": 112}[machine], 0, struct.pack("qq", 1, 0))
