// SPDX-License-Identifier: Apache-2.0
// A table with data-sort: a heading sorts (again: the other way), by the number a cell begins with, also as a bound, or by its
// words; what is not known comes last. A field above filters rows. Of long tables only so many rows stand in the page at a time, so that 10,000 stay quick.
"use strict";
(() => {
	const SHOWN = 200, FEW = 12;

	const valueOf = (cell) => {
		const text = cell ? cell.textContent.trim() : "";
		const found = text.replaceAll(",", "").match(/^(?:at least |below |[^\d-]{0,3})(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)/i);
		return { text: text.toLowerCase(), number: found ? Number(found[1]) : NaN };
	};

	const start = (table) => {
		const headings = [...table.tHead.rows[table.tHead.rows.length - 1].cells], body = table.tBodies[0];
		// a row that says something of the one above (class "said") stays with it
		const groups = [];
		for (const row of body.rows) row.classList.contains("said") && groups.length ? groups.at(-1).push(row) : groups.push([row]);
		if (groups.length < 2) return;
		let order = groups, wanted = [], limit = SHOWN, column = -1, falling = false;
		const values = new Map();

		const tools = document.createElement("div"), count = document.createElement("span"), more = document.createElement("button");
		tools.className = "tools";
		count.setAttribute("role", "status");
		more.type = "button";
		more.textContent = "Show more rows";
		more.addEventListener("click", () => { limit *= 5; show(); });
		const words = groups.map((rows) => rows.map((row) => row.textContent).join(" ").toLowerCase());
		const numbers = new Map(groups.map((rows, index) => [rows, index]));
		if (groups.length > FEW) {
			const label = document.createElement("label"), field = document.createElement("input");
			field.type = "search";
			label.append("Filter rows ", field);
			tools.append(label);
			field.addEventListener("input", () => { wanted = field.value.toLowerCase().split(/\s+/).filter(Boolean); limit = SHOWN; show(); });
		}
		tools.append(count, more);
		if (groups.length > FEW) table.parentElement.before(tools);
		table.dataset.live = "";

		const show = () => {
			const found = order.filter((rows) => wanted.every((word) => words[numbers.get(rows)].includes(word)));
			body.replaceChildren(...found.slice(0, limit).flat());
			more.hidden = found.length <= limit;
			count.textContent = groups.length > FEW ? `${Math.min(limit, found.length)} of ${groups.length} rows` : "";
		};
		const sort = (index) => {
			falling = column === index && !falling;
			column = index;
			if (!values.has(index)) values.set(index, new Map(groups.map((rows) => [rows, valueOf(rows[0].cells[index])])));
			const of = values.get(index), sign = falling ? -1 : 1;
			const nothing = (value) => /^(?:[–-]?$|not |reference$)/.test(value.text);
			order = [...groups].sort((one, other) => {
				const a = of.get(one), b = of.get(other);
				if (nothing(a) || nothing(b)) return nothing(a) - nothing(b);
				if (!Number.isNaN(a.number) && !Number.isNaN(b.number)) return sign * (a.number - b.number);
				return sign * a.text.localeCompare(b.text);
			});
			headings.forEach((each, at) => (at === index ? each.setAttribute("aria-sort", falling ? "descending" : "ascending") : each.removeAttribute("aria-sort")));
			show();
		};
		headings.forEach((heading, index) => {
			const button = document.createElement("button");
			button.type = "button";
			button.append(...heading.childNodes);
			heading.append(button);
			button.addEventListener("click", () => sort(index));
		});
		show();
		addEventListener("beforeprint", () => { limit = Infinity; show(); });
	};
	for (const table of document.querySelectorAll("table[data-sort]")) if (table.tHead && table.tBodies.length) start(table);
})();
