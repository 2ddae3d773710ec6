/* Entry point of the page: asks the server what is open and puts the parts together. */
import { State } from "./state.js";
import { View } from "./view.js";
import { Mouse } from "./mouse.js";
import { Readout } from "./readout.js";
import { Histogram } from "./histogram.js";
import { Profile } from "./profile.js";
import { Region } from "./region.js";
import { Player } from "./play.js";
import { Render } from "./render.js";
import { Saver } from "./save.js";
import { AxisPanel } from "./scan.js";
import { fetchReply, isLost } from "./tiles.js";
import { fillHelp, listenToKeys } from "./keys.js";
import { connectToolbar, connectLayout, connectTabs, switchTheme } from "./controls.js";

const SHOWN_MS = 8000; /* how long an error is shown */
const message = document.getElementById("status-message");

/* Errors go to the status line; a server that has ended is the usual one. */
function report(error) {
	message.classList.add("error");
	message.textContent = isLost(error) ? "No answer: has the command ended? Start it again and open its new address." : error.message;
	clearTimeout(report.timer);
	report.timer = setTimeout(() => { message.textContent = ""; }, SHOWN_MS);
}

function nameFiles(state) {
	const text = state.files.map((file, i) => {
		const size = [...file.shape].reverse().join(" × ");
		return `${state.twoFiles ? `${"AB"[i]}: ` : ""}${file.name} (${size}, ${file.type})`;
	}).join("   ");
	document.getElementById("file-names").textContent = text;
	document.getElementById("file-names").title = text;
	document.title = `${state.files.map(file => file.name).join(", ")} - tomos view`;
}

/* The first picture of a difference decides its window. */
function watchDifference(state, view, histogram) {
	let chosen = false;
	state.on("image", () => {
		if (state.mode === "difference" && !state.differenceWindow) {
			const { low, high } = state.window, width = (high - low) / 4;
			state.differenceWindow = { low: -width, high: width };
		}
	});
	state.on("drawn", () => {
		if (state.mode !== "difference" || !view.settled)
			return;
		if (!chosen) {
			chosen = true;
			view.autoWindow();
			histogram.countDifference();
		}
	});
}

function showLoading(view) {
	const box = document.getElementById("status-load");
	setInterval(() => {
		box.textContent = view.store.settled() ? "" : "loading…";
	}, 150);
}

async function open() {
	const info = await (await fetchReply("./info")).json();
	const state = new State(info), view = new View(state, report);
	nameFiles(state);
	const readout = new Readout(state, view), mouse = new Mouse(state, view, readout);
	const histogram = new Histogram(state, view), profile = new Profile(state, report), region = new Region(state, report), player = new Player(state, view);
	const live = info.scan && info.scan.live ? new AxisPanel(state, report) : null;
	const there = { render: !state.geometry.projections && state.shape[0] > 1, axis: !!live };
	const tab = connectTabs(state, there), render = new Render(state, view, report);
	const saver = new Saver(state, view, there.render ? render : null, report);
	watchDifference(state, view, histogram);
	const actions = {
		tab,
		layout: connectLayout(state, view),
		play: () => player.toggle(),
		tool: name => {
			state.set("tool", name, "tool");
			if (name !== "cross")
				tab(name === "line" ? "profile" : "region");
		},
		fullWindow: () => histogram.full(),
		save: () => saver.open(),
		theme: () => {
			switchTheme();
			view.readColours();
		},
		help: () => document.getElementById("help").showModal(),
	};
	fillHelp(document.getElementById("help-keys"));
	connectToolbar(state, view, actions);
	listenToKeys(state, view, actions);
	showLoading(view);
	view.fit();
	window.tomosView = { state, view, readout, mouse, histogram, profile, region, player, render, live, saver };
}

open().catch(report);
