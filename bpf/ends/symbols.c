// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <stdio.h>
#include "symbols.h"

void symbol_name(__u64 address, char *name, size_t size)
{
	unsigned long long at, best = 0;
	char line[512], found[128];
	FILE *file = fopen("/proc/kallsyms", "re");

	name[0] = '\0';
	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%llx %*c %127s", &at, found) != 2 ||
		    at > address || at <= best)
			continue;
		best = at;
		snprintf(name, size, "%s", found);
	}
	if (file)
		fclose(file);
}
