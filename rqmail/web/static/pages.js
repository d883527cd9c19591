"use strict";
// What the pages do better with a script: times in the viewer's zone, numbers that stay fresh, choosing many at once.
// Everything works without it.

document.documentElement.classList.add("scripted");

// The page's language, written as it is where the viewer lives if that is known: 24 Nov rather than Nov 24.
const pageLanguage = document.documentElement.lang;
const language = navigator.languages.find((one) => one.startsWith(pageLanguage))
  ?? (pageLanguage === "en" ? "en-GB" : pageLanguage);
const clockTime = new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
const dayAndTime = new Intl.DateTimeFormat(language, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hour12: false });
const withYear = new Intl.DateTimeFormat(language, { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", hour12: false });

function localise(root) {
  const today = new Date();
  for (const element of root.querySelectorAll("time[datetime]")) {
    const moment = new Date(element.dateTime);
    if (element.title || Number.isNaN(moment.valueOf())) continue;
    element.title = element.textContent;
    const style = moment.toDateString() === today.toDateString() ? clockTime
      : moment.getFullYear() === today.getFullYear() ? dayAndTime : withYear;
    element.textContent = style.format(moment);
  }
}

// --- staying fresh: the page is fetched again, and what is marked as live is exchanged ------------------------------

const EVERY = 5000;
// Asking may take a twentieth of the server's time for this page, so a slow answer is asked for less often.
const SHARE = 20;
const live = document.getElementById("live");
let timer = 0;

function isInUse(element) {
  return element.contains(document.activeElement) || element.querySelector(":popover-open, details[open]") !== null;
}

async function refresh() {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" }, redirect: "follow" });
  if (new URL(answer.url).pathname === "/login") {
    live.textContent = document.body.dataset.stale;
    return false;
  }
  if (!answer.ok) throw new Error(answer.statusText);
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const element of document.querySelectorAll("[data-live]")) {
    const now = fresh.getElementById(element.id);
    if (now === null || isInUse(element)) continue;
    localise(now);
    if (now.innerHTML !== element.innerHTML) element.replaceChildren(...now.childNodes);
  }
  return true;
}

async function tick() {
  const began = performance.now();
  try {
    if (!(await refresh())) return;
    live.textContent = live.dataset.on.replace("{time}", clockTime.format(new Date()));
  } catch {
    live.textContent = live.dataset.off;
  }
  wait(SHARE * (performance.now() - began));
}

function wait(atLeast = 0) {
  clearTimeout(timer);
  if (!document.hidden) timer = setTimeout(tick, Math.max(EVERY, atLeast));
}

function stayFresh() {
  if (live === null || document.querySelector("[data-live]") === null || document.body.dataset.answerTo === "POST") return;
  live.hidden = false;
  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer);
    if (!document.hidden) tick();
  });
  wait();
}

// --- choosing many, saving what was typed, copying what is shown once ------------------------------------------------

function chooseMany() {
  const all = document.getElementById("all");
  const chosen = document.getElementById("chosen");
  const boxes = [...document.querySelectorAll("input[name=ids]")];
  if (all === null || chosen === null) return;
  const count = () => {
    const number = boxes.filter((box) => box.checked).length;
    chosen.textContent = `(${number})`;
    all.checked = number === boxes.length;
    all.indeterminate = number > 0 && number < boxes.length;
  };
  all.hidden = false;
  all.addEventListener("change", () => {
    for (const box of boxes) box.checked = all.checked;
    count();
  });
  for (const box of boxes) box.addEventListener("change", count);
  count();
}

function showWhatIsUnsaved() {
  for (const input of document.querySelectorAll("input.limit")) {
    const row = input.closest("tr");
    const mark = () => row.classList.toggle("unsaved", [...row.querySelectorAll("input.limit")].some((one) => one.value !== one.defaultValue));
    input.addEventListener("input", mark);
    input.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      input.value = input.defaultValue;
      mark();
    });
  }
}

function copyOnce() {
  for (const field of document.querySelectorAll("[data-select]")) field.addEventListener("focus", () => field.select());
  for (const button of document.querySelectorAll("[data-copy]")) {
    if (!navigator.clipboard) continue;
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).value);
      button.textContent = "✓";
    });
  }
}

localise(document);
chooseMany();
showWhatIsUnsaved();
copyOnce();
stayFresh();
