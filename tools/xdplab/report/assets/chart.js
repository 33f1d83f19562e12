// SPDX-License-Identifier: Apache-2.0
// Draws each <figure data-chart> from the JSON in it (xdplab.report.chart): curves are toggled by their legend, zoomed
// by dragging, read under the pointer or with the arrow keys. Texts go in as text, never as markup.
"use strict";
(() => {
	const SVG = "http://www.w3.org/2000/svg";
	const COLOURS = 8, DASHES = ["", "7 3", "7 3 2 3", "2 3"], MAX_TIP_LINES = 10;
	const LEFT = 58, RIGHT = 14, TOP = 26, BOTTOM = 40, ROW = 26;

	const make = (parent, name, attributes = {}, text = "") => {
		const svg = ["svg", "g", "path", "line", "rect", "circle", "text"].includes(name);
		const made = svg ? document.createElementNS(SVG, name) : document.createElement(name);
		for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
		if (text) made.textContent = text;
		parent.append(made);
		return made;
	};
	const number = (value) => {
		const size = Math.abs(value);
		if (size && (size < 1e-3 || size >= 1e7)) return value.toExponential(2);
		return value.toLocaleString("en", { maximumSignificantDigits: size >= 1000 ? Math.ceil(Math.log10(size + 1)) : 4 });
	};
	const percentile = (above) => (above >= 1 ? "min" : "p" + Number((100 * (1 - above)).toFixed(Math.max(0, Math.round(-Math.log10(above))))));
	const said = (axis, value) => (axis.names.length ? axis.names[value] : axis.percentile ? percentile(value) : number(value) + (axis.unit ? " " + axis.unit : ""));

	// From values to a line on which equal distances look equal, and back.
	const bend = (axis) => {
		if (axis.percentile) return [(v) => (v > 0 ? -Math.log10(v) : NaN), (t) => 10 ** -t];
		return axis.log ? [(v) => (v > 0 ? Math.log10(v) : NaN), (t) => 10 ** t] : [(v) => v, (t) => t];
	};
	const nice = (low, high, count) => {
		const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
		const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= raw);
		const ticks = [], first = Math.ceil(low / step);
		for (let n = first; n * step <= high + step * 1e-9 && n <= first + 2 * count; n++) ticks.push(Number((n * step).toPrecision(12)));
		return ticks;
	};
	const ticksOf = (axis, low, high, count) => {
		const inside = (values) => values.filter((v) => bend(axis)[0](v) >= low - 1e-9 && bend(axis)[0](v) <= high + 1e-9);
		if (axis.names.length) return axis.names.map((_, at) => at).filter((at) => at >= low && at <= high);
		if (axis.percentile) {
			const usual = inside([1, 0.5, 0.1, 0.01, 1e-3, 1e-4, 1e-5, 1e-6]);
			return usual.length > 1 ? usual : nice(low, high, 4).map((t) => 10 ** -t);
		}
		if (!axis.log) return nice(low, high, count);
		if (high - low < 0.7) return nice(10 ** low, 10 ** high, count);
		const within = high - low > count / 2.5 ? [1] : [1, 2, 5], found = [];
		for (let power = Math.floor(low); power <= high; power++) found.push(...within.map((each) => Number((each * 10 ** power).toPrecision(3))));
		return inside(found);
	};
	const range = (values) => {
		let low = Infinity, high = -Infinity;
		for (const v of values) if (v !== null && Number.isFinite(v)) { low = Math.min(low, v); high = Math.max(high, v); }
		if (low > high) return [0, 1];
		const room = (high - low) * 0.03 || Math.abs(high) * 0.05 || 0.5;
		return [low - room, high + room];
	};

	// A part of a range, moved into it; the values have six digits, so that less than that of them shows nothing.
	const part = (middle, wanted, [first, last]) => {
		const least = Math.max(Math.abs(first), Math.abs(last)) * 1e-6, span = Math.min(Math.max(wanted, least), last - first);
		const low = Math.min(Math.max(middle - span / 2, first), last - span);
		return [low, low + span];
	};

	const start = (figure) => {
		const chart = JSON.parse(figure.querySelector('script[type="application/json"]').textContent);
		// Series of one name have one colour and one button. Rows: names along the y axis; low and high lie along x.
		const names = [...new Set(chart.series.map((each) => each.name))], rows = chart.y.names.length;
		for (const each of chart.series) each.number = names.indexOf(each.name);
		const hidden = new Set();
		let zoom = null, cursor = null, drag = null, plot = null;
		figure.classList.add("live");
		const area = make(figure, "div", { class: "drawn" });
		figure.prepend(area);
		const bar = make(area, "div", { class: "tools" }), svg = make(area, "svg", {
			tabindex: 0, role: "img", "aria-label": chart.title + ". Arrow keys read values; up and down change the curve; plus and minus zoom; Escape shows all.",
		});
		const tip = make(area, "div", { class: "tip", "aria-live": "polite", hidden: "" });
		const legend = make(area, "div", { class: "legend", role: "group", "aria-label": "Curves" });

		for (const key of ["x", "y"]) {
			const values = chart.series.flatMap((each) => each[key]);
			if (chart[key].percentile || chart[key].names.length || !values.every((v) => v === null || v > 0)) continue;
			const label = make(bar, "label"), box = make(label, "input", { type: "checkbox" });
			box.checked = chart[key].log;
			label.append(" log " + key);
			box.addEventListener("change", () => { chart[key].log = box.checked; zoom = null; draw(); });
		}
		const reset = make(bar, "button", { type: "button" }, "Show all of it");
		reset.addEventListener("click", () => { zoom = null; draw(); });
		const buttons = names.map((name, index) => {
			const button = make(legend, "button", { type: "button", class: "s" + (index % COLOURS) });
			const swatch = make(button, "svg", { viewBox: "0 0 24 8", width: 24, height: 8, "aria-hidden": "true" });
			make(swatch, "line", { x1: 0, x2: 24, y1: 4, y2: 4, class: "curve", "stroke-dasharray": DASHES[Math.floor(index / COLOURS) % DASHES.length] });
			button.append(" " + name);
			button.addEventListener("click", () => { hidden.has(index) ? hidden.delete(index) : hidden.add(index); draw(); });
			return button;
		});
		if (names.length > 3) make(legend, "button", { type: "button" }, "all / none").addEventListener("click", () => {
			hidden.size ? hidden.clear() : names.forEach((_, index) => hidden.add(index));
			draw();
		});

		const layout = () => {
			const width = Math.max(280, area.clientWidth), height = rows ? TOP + BOTTOM + ROW * rows : Math.round(Math.min(400, Math.max(260, width * 0.5)));
			const left = rows ? Math.min(width * 0.4, 12 + 7 * Math.max(...chart.y.names.map((each) => each.length))) : LEFT;
			const shown = chart.series.map((series) => ({ series, index: series.number })).filter(({ index }) => !hidden.has(index));
			const [fx, backX] = bend(chart.x), [fy, backY] = bend(chart.y);
			const alongX = rows ? ["x", "low", "high"] : ["x"];
			const wholeX = range(shown.flatMap(({ series }) => alongX.flatMap((key) => (series[key] || []).map((v) => (v === null ? null : fx(v)))))), spanX = zoom ? zoom.x : wholeX;
			const within = (series, key) => (series[key] || []).filter((_, at) => { const t = fx(series.x[at]); return t >= spanX[0] && t <= spanX[1]; }).map((v) => (v === null ? null : fy(v)));
			const spanY = zoom && zoom.y ? zoom.y : rows ? [-0.6, rows - 0.4] : range(shown.flatMap(({ series }) => ["y", "low", "high"].flatMap((key) => within(series, key))));
			const px = (t) => left + ((t - spanX[0]) / (spanX[1] - spanX[0])) * (width - left - RIGHT);
			const py = (t) => height - BOTTOM - ((t - spanY[0]) / (spanY[1] - spanY[0])) * (height - TOP - BOTTOM);
			const atX = (p) => spanX[0] + ((p - left) / (width - left - RIGHT)) * (spanX[1] - spanX[0]);
			const atY = (p) => spanY[0] + ((height - BOTTOM - p) / (height - TOP - BOTTOM)) * (spanY[1] - spanY[0]);
			return { left, width, height, shown, wholeX, spanX, spanY, atX, atY, x: (v) => px(fx(v)), y: (v) => (v === null ? NaN : py(fy(v))), backX, backY };
		};
		const spot = (series, at) => plot.x(series.bars ? (series.low[at] + series.high[at]) / 2 : series.x[at]);
		const path = (points, steps = false) => {
			let text = "", pen = "M";
			for (const [x, y] of points) {
				if (!Number.isFinite(x) || !Number.isFinite(y)) { pen = "M"; continue; }
				text += (steps && pen === "L" ? "H" + x.toFixed(1) + "V" : pen + x.toFixed(1) + " ") + y.toFixed(1);
				pen = "L";
			}
			return text;
		};
		const draw = () => {
			plot = layout();
			const { left, width, height } = plot, inner = { x: left, y: TOP, width: width - left - RIGHT, height: height - TOP - BOTTOM };
			svg.replaceChildren();
			svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
			svg.setAttribute("height", height);
			const frame = make(svg, "svg", inner);
			frame.setAttribute("viewBox", `${inner.x} ${inner.y} ${inner.width} ${inner.height}`);
			for (const v of ticksOf(chart.x, ...plot.spanX, width / 90)) {
				make(frame, "line", { x1: plot.x(v), x2: plot.x(v), y1: TOP, y2: height - BOTTOM, class: "grid" });
				const end = plot.x(v) > width - 30;
				make(svg, "text", { x: end ? width : plot.x(v), y: height - BOTTOM + 16, "text-anchor": end ? "end" : "middle" }, chart.x.percentile ? percentile(v) : number(v));
			}
			for (const v of ticksOf(chart.y, ...plot.spanY, 6)) {
				make(frame, "line", { x1: left, x2: width - RIGHT, y1: plot.y(v), y2: plot.y(v), class: "grid" });
				const label = make(svg, "text", { x: left - 6, y: plot.y(v) + 4, "text-anchor": "end" }, rows ? chart.y.names[v] : chart.y.percentile ? percentile(v) : number(v));
				while (rows && label.textContent.length > 2 && label.getComputedTextLength() > left - 8) label.textContent = label.textContent.slice(0, -2) + "…";
			}
			make(svg, "text", { x: left + inner.width / 2, y: height - 8, "text-anchor": "middle", class: "axis" }, chart.x.label);
			make(svg, "text", { x: 2, y: 14, class: "axis" }, chart.y.label);
			for (const { series, index } of plot.shown) {
				const at = (key) => series.x.map((x, i) => [plot.x(x), plot.y(series[key][i])]);
				const curve = make(frame, "g", { class: "s" + (index % COLOURS) });
				for (const [i, v] of series.y.entries()) if (rows && series.low && series.low[i] !== null && series.high[i] !== null) make(curve, "line", { x1: plot.x(series.low[i]), x2: plot.x(series.high[i]), y1: plot.y(v), y2: plot.y(v), class: series.bars ? "bar" : "curve" });
				if (!rows && series.low && series.high) make(curve, "path", { class: "band", d: path([...at("high"), ...at("low").reverse()]) });
				if (series.joined) make(curve, "path", { class: "curve", d: path(at("y"), series.steps), "stroke-dasharray": DASHES[Math.floor(index / COLOURS) % DASHES.length] });
				if (!series.bars && (!series.joined || (series.x.length <= 60 && !series.steps))) for (const [x, y] of at("y")) if (Number.isFinite(x + y)) make(curve, "circle", { cx: x, cy: y, r: 2.5 });
			}
			plot.marks = make(frame, "g", { class: "marks" });
			buttons.forEach((button, index) => button.setAttribute("aria-pressed", String(!hidden.has(index))));
			reset.hidden = !zoom;
			tip.hidden = true;
		};
		// The values of all curves at the x nearest to a place, those next to it first.
		const read = (x, y, chosen = null) => {
			const found = plot.shown.map(({ series, index }) => {
				let best = -1, near = Infinity;
				series.x.forEach((_, at) => {
					const far = Math.hypot(spot(series, at) - x, (plot.y(series.y[at]) - y) / 50);
					if (far < near) { near = far; best = at; }
				});
				return { series, index, best, near: Math.hypot(near, plot.y(series.y[best]) - y) };
			}).filter((each) => each.best >= 0);
			found.sort((one, other) => (other.series === chosen) - (one.series === chosen) || one.near - other.near);
			plot.marks.replaceChildren();
			tip.replaceChildren();
			for (const { series, index, best } of found.slice(0, MAX_TIP_LINES)) {
				make(plot.marks, "circle", { cx: spot(series, best), cy: plot.y(series.y[best]), r: 4, class: "s" + (index % COLOURS) });
				const band = series.low && series.low[best] !== null && series.high[best] !== null;
				const ends = band ? ` (${number(series.low[best])} to ${number(series.high[best])})` : "", [x, y] = [said(chart.x, series.x[best]), said(chart.y, series.y[best])];
				const text = rows ? `${y}, ${series.name}: ${x}${ends}` : `${series.name}: ${y}${ends} at ${x}`;
				make(tip, "div", { class: "s" + (index % COLOURS) }, text);
			}
			tip.hidden = !found.length;
			const right = x > plot.width / 2;
			tip.style.left = right ? "" : `${x + 14}px`;
			tip.style.right = right ? `${plot.width - x + 14}px` : "";
			tip.style.maxWidth = `${(right ? x : plot.width - x) - 20}px`;
			tip.style.top = `${svg.getBoundingClientRect().top - area.getBoundingClientRect().top + TOP}px`;
		};
		const place = (event) => {
			const box = svg.getBoundingClientRect();
			return [event.clientX - box.left, event.clientY - box.top];
		};
		svg.addEventListener("pointerdown", (event) => { drag = place(event); svg.setPointerCapture(event.pointerId); });
		svg.addEventListener("pointermove", (event) => {
			const [x, y] = place(event);
			if (!drag) { read(x, y); return; }
			tip.hidden = true;
			plot.marks.replaceChildren();
			const tall = Math.abs(y - drag[1]) > 24;
			make(plot.marks, "rect", { class: "drag", x: Math.min(x, drag[0]), width: Math.abs(x - drag[0]), y: tall ? Math.min(y, drag[1]) : TOP, height: tall ? Math.abs(y - drag[1]) : plot.height - TOP - BOTTOM });
		});
		svg.addEventListener("pointerup", (event) => {
			if (!drag) return;
			const [x, y] = place(event), [x0, y0] = drag;
			drag = null;
			if (Math.abs(x - x0) < 8) { read(x, y); return; }
			const inside = (value, low, high) => Math.min(Math.max(value, low), high);
			const dragged = (at, a, b, whole) => part((at(a) + at(b)) / 2, Math.abs(at(a) - at(b)), whole);
			const [left, right] = [x0, x].map((each) => inside(each, plot.left, plot.width - RIGHT)), [top, bottom] = [y0, y].map((each) => inside(each, TOP, plot.height - BOTTOM));
			zoom = { x: dragged(plot.atX, left, right, plot.spanX), y: Math.abs(y - y0) > 24 ? dragged(plot.atY, top, bottom, plot.spanY) : null };
			draw();
		});
		svg.addEventListener("pointercancel", () => { drag = null; });
		svg.addEventListener("pointerleave", () => { if (!drag) { tip.hidden = true; plot.marks.replaceChildren(); } });
		svg.addEventListener("dblclick", () => { zoom = null; draw(); });
		svg.addEventListener("keydown", (event) => {
			const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1], Home: [-Infinity, 0], End: [Infinity, 0] };
			if (event.key === "Escape") { zoom = null; cursor = null; draw(); return; }
			if (!plot.shown.length) return;
			if (event.key === "+" || event.key === "-") {
				const middle = cursor ? plot.atX(plot.x(cursor.x)) : (plot.spanX[0] + plot.spanX[1]) / 2;
				const span = (plot.spanX[1] - plot.spanX[0]) * (event.key === "+" ? 0.5 : 2);
				zoom = span < plot.wholeX[1] - plot.wholeX[0] ? { x: part(middle, span, plot.wholeX), y: null } : null;
				draw();
			} else if (!steps[event.key]) return;
			event.preventDefault();
			const [along, over] = steps[event.key] || [0, 0], last = plot.shown.length - 1;
			const row = cursor ? Math.min(last, Math.max(0, cursor.row + over)) : 0, { series } = plot.shown[row];
			const from = cursor ? cursor.at : -1;
			const at = Math.min(series.x.length - 1, Math.max(0, from + along));
			cursor = { row, at, x: series.x[at] };
			read(spot(series, at), plot.y(series.y[at]), series);
		});
		new ResizeObserver(() => { if (area.clientWidth && (!plot || plot.width !== Math.max(280, area.clientWidth))) draw(); }).observe(area);
		draw();
	};
	for (const figure of document.querySelectorAll("figure[data-chart]")) start(figure);
	addEventListener("chart", (event) => start(event.target)); // of a figure that is put into the page later
})();
