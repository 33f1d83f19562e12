// SPDX-License-Identifier: Apache-2.0
// The site of several runs: a box in a row of the points lays that point's distribution over those of the others chosen.
// A run's curves are loaded by a script element when they are first asked for: a page from disk may fetch nothing. What
// is chosen stands in the address, behind #. It runs before table.js, which keeps most rows of a long table out of the
// page.
"use strict";
(() => {
	const page = JSON.parse(document.getElementById("site").textContent);
	const place = document.getElementById("overlay"), message = document.getElementById("overlay-said");
	const boxes = [...document.querySelectorAll("input[data-point]")];
	const keyOf = (box) => box.dataset.run + "." + box.dataset.point;
	const loaded = new Map(), asked = new Set();

	const show = () => {
		const chosen = boxes.filter((box) => box.checked), missing = [];
		const charts = new Map();
		for (const box of chosen) {
			const curves = loaded.get(box.dataset.run);
			if (!curves) { missing.push(box.dataset.run); continue; }
			const found = curves[box.dataset.point];
			if (!charts.has(found.quantity)) charts.set(found.quantity, []);
			charts.get(found.quantity).push(found.series);
		}
		place.replaceChildren();
		for (const [quantity, series] of charts) {
			const figure = document.createElement("figure"), data = document.createElement("script"), note = document.createElement("figcaption");
			data.type = "application/json";
			data.textContent = JSON.stringify({ ...page.chart, title: page.chart.title + ", " + quantity, series });
			note.textContent = quantity[0].toUpperCase() + quantity.slice(1) + ". " + page.note;
			figure.dataset.chart = "";
			figure.append(data, note);
			place.append(figure);
			figure.dispatchEvent(new Event("chart", { bubbles: true }));
		}
		for (const run of new Set(missing)) load(run);
		message.hidden = chosen.length > 0;
		history.replaceState(null, "", "#" + chosen.map(keyOf).join(","));
	};
	const load = (run) => {
		if (asked.has(run)) return;
		asked.add(run);
		const script = document.createElement("script");
		script.src = "data/" + run + ".js";
		script.onerror = () => { message.hidden = false; message.textContent = script.getAttribute("src") + " cannot be read: it belongs next to this page."; };
		document.head.append(script);
	};
	window.xdplabRun = (run, curves) => { loaded.set(run, curves); show(); };

	for (const box of boxes) box.addEventListener("change", show);
	document.getElementById("overlay-none").addEventListener("click", () => { for (const box of boxes) box.checked = false; show(); });
	// a picture that is folded away is drawn when it is first seen: there may be hundreds
	for (const folded of document.querySelectorAll("details:not([open])")) for (const figure of folded.querySelectorAll("figure[data-chart]")) {
		delete figure.dataset.chart;
		folded.addEventListener("toggle", () => { figure.dataset.chart = ""; figure.dispatchEvent(new Event("chart", { bubbles: true })); }, { once: true });
	}
	addEventListener("DOMContentLoaded", () => {
		const before = new Set(location.hash.slice(1).split(","));
		for (const box of boxes) box.checked = before.has(keyOf(box));
		if (boxes.some((box) => box.checked)) show();
	});
})();
