# SPDX-License-Identifier: Apache-2.0
"""A small tree in place of Linux's source, of which a build compiles some 1,500 files."""

import subprocess
from pathlib import Path

#: Of `make O=FOLDER`: what kernels.py asks of it, and a compiler's error, or a minute, where a source says so.
MAKEFILE = r"""
allnoconfig:
	@if grep -q unclean net/xdp/xsk.c; then echo '***' >&2; echo '*** The source tree is not clean' >&2; exit 1; fi
	mkdir -p $(O) && grep -v BRIDGE $(KCONFIG_ALLCONFIG) | grep ^CONFIG >$(O)/.config
bzImage:
	@if grep -q broken net/xdp/xsk.c; then echo "net/xdp/xsk.c:1:1: error: expected ';'" >&2; exit 1; fi
	@if grep -q slow net/xdp/xsk.c; then exec sleep 61.257; fi
	mkdir -p $(O)/arch/x86/boot && cp header $(O)/arch/x86/boot/bzImage
	cat net/xdp/xsk.c >>$(O)/arch/x86/boot/bzImage && cp net/xdp/xsk.c $(O)/vmlinux
modules:
modules_install:
	mkdir -p $(INSTALL_MOD_PATH)/lib/modules/9.9.0/kernel
	printf '\0depends=\0' >$(INSTALL_MOD_PATH)/lib/modules/9.9.0/kernel/veth.ko
"""


def header(release: str = "9.9.0") -> bytes:
    """Of a bzImage (linux/Documentation/arch/x86/boot.rst)."""
    head = bytearray(0x1000)
    head[0x202:0x206] = b"HdrS"
    head[0x20E:0x210] = (0x300).to_bytes(2, "little")
    text = f"{release} (xdplab@xdplab) #1\0".encode()
    head[0x500 : 0x500 + len(text)] = text
    return bytes(head)


def git(tree: Path, *words: str) -> str:
    who = ("-c", "user.name=t", "-c", "user.email=t@t")
    return subprocess.run(["git", "-C", tree, *who, *words], check=True, capture_output=True, text=True).stdout.strip()


def linux_tree(folder: Path) -> Path:
    """`linux` in that folder, with a commit on branch master."""
    found = folder / "linux"
    (found / "net/xdp").mkdir(parents=True)
    (found / "Kbuild").touch()
    (found / "Makefile").write_text(MAKEFILE, encoding="ascii")
    (found / "header").write_bytes(header())
    (found / "net/xdp/xsk.c").write_text("one", encoding="ascii")
    git(found, "init", "-q", "-b", "master")
    git(found, "add", ".")
    git(found, "commit", "-q", "-m", "one")
    return found
