// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * A plugin of QEMU (9.0 or later): how often each instruction of the guest was
 * executed between the marks of meter.c, and how many bytes each string move
 * (MOVS) stored.  out=FILE gets a line for each: the address (of bytes with
 * COPIED turned over, which no address of x86 has), then a number for each time
 * that the first mark was passed.  Numbers are added to by code that QEMU emits
 * in line; a mark takes a copy.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "mark.h"
#include "qemu_plugin.h"

#define SLOTS	(1u << 20)
#define REGIONS 32
#define COPIED	(1ull << 62)

__attribute__((visibility("default"))) int qemu_plugin_version = 2;

static uint64_t addresses[SLOTS];
static struct qemu_plugin_scoreboard *counts;
static uint64_t *at_marks[2 * REGIONS];
static unsigned marks, used;
static char out[512] = "counts";

/* The slot of an address; what does not fit any more is in the last one. */
static unsigned slot(uint64_t address)
{
	unsigned i = address * 0x9e3779b97f4a7c15u >> 44;

	while (addresses[i] && addresses[i] != address)
		i = (i + 1) % SLOTS;
	if (!addresses[i] && used < SLOTS - 2) {
		addresses[i] = address;
		used++;
	}
	return i;
}

static void mark(unsigned vcpu, void *data)
{
	const uint64_t *now = qemu_plugin_scoreboard_find(counts, vcpu);

	/* on and off take turns, whatever was executed in between */
	if (marks == 2 * REGIONS || (marks & 1) == !!data)
		return;
	at_marks[marks] = malloc(SLOTS * sizeof(*now));
	if (at_marks[marks])
		memcpy(at_marks[marks++], now, SLOTS * sizeof(*now));
}

/* The bytes of each element that a MOVS moves; 0: it is another instruction. */
static unsigned movs_bytes(const uint8_t *code, size_t size)
{
	unsigned word = 4;
	size_t i = 0;

	/* REP, segments, sizes of operands and addresses; then REX */
	while (i < size && code[i] &&
	       strchr("\xf2\xf3\x66\x67\x2e\x36\x3e\x26\x64\x65", code[i])) {
		if (code[i++] == 0x66)
			word = 2;
	}
	if (i < size && (code[i] & 0xf0) == 0x40) {
		if (code[i++] & 8)
			word = 8;
	}
	if (i + 1 != size || (code[i] & 0xfe) != 0xa4)
		return 0;
	return code[i] & 1 ? word : 1;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	(void)id;
	for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uint8_t code[16] = {};
		qemu_plugin_u64 number = { .score = counts };
		uint64_t address = qemu_plugin_insn_vaddr(insn);
		unsigned bytes;

		qemu_plugin_insn_data(insn, code, sizeof(code));
		if (qemu_plugin_insn_size(insn) == MARK_BYTES &&
		    !memcmp(code, MARK_PREFIX, 3) &&
		    !memcmp(code + 4, MARK_SUFFIX, 3)) {
			qemu_plugin_register_vcpu_insn_exec_cb(
				insn, mark, QEMU_PLUGIN_CB_NO_REGS,
				code[3] ? (void *)1 : NULL);
			continue;
		}
		number.offset = slot(address) * sizeof(uint64_t);
		qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(
			insn, QEMU_PLUGIN_INLINE_ADD_U64, number, 1);
		bytes = movs_bytes(code, qemu_plugin_insn_size(insn));
		if (!bytes)
			continue;
		number.offset = slot(address ^ COPIED) * sizeof(uint64_t);
		qemu_plugin_register_vcpu_mem_inline_per_vcpu(
			insn, QEMU_PLUGIN_MEM_W, QEMU_PLUGIN_INLINE_ADD_U64,
			number, bytes);
	}
}

static void ended(qemu_plugin_id_t id, void *data)
{
	FILE *file = fopen(out, "w");

	(void)id;
	(void)data;
	if (!file)
		return;
	for (unsigned i = 0; i < SLOTS; i++) {
		uint64_t any = 0;

		for (unsigned m = 0; m + 1 < marks; m += 2)
			any |= at_marks[m + 1][i] - at_marks[m][i];
		if (!any)
			continue;
		fprintf(file, "%lx", addresses[i]);
		for (unsigned m = 0; m + 1 < marks; m += 2)
			fprintf(file, " %lu",
				at_marks[m + 1][i] - at_marks[m][i]);
		fputc('\n', file);
	}
	fclose(file);
}

__attribute__((visibility("default"))) int
qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc,
		    char **argv)
{
	(void)info;
	for (int i = 0; i < argc; i++)
		if (!strncmp(argv[i], "out=", 4))
			snprintf(out, sizeof(out), "%s", argv[i] + 4);
	counts = qemu_plugin_scoreboard_new(SLOTS * sizeof(uint64_t));
	if (!counts)
		return -1;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	qemu_plugin_register_atexit_cb(id, ended, NULL);
	return 0;
}
