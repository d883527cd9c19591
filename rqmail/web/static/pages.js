"use strict";
// What the pages do better with a script: times in the viewer's zone, numbers that stay fresh, choosing many at once.
// Everything works without it.

document.documentElement.classList.add("scripted");

// The page's language, written as it is where the viewer lives if that is known: 24 Nov rather than Nov 24.
const pageLanguage = document.documentElement.lang;
const language = navigator.languages.find((one) => one.startsWith(pageLanguage))
  ?? (pageLanguage === "en" ? "en-GB" : pageLanguage);
const clockTime = new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
const hourAndMinute = new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit", hour12: false });
const dayAndTime = new Intl.DateTimeFormat(language, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hour12: false });
const withYear = new Intl.DateTimeFormat(language, { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", hour12: false });

const zone = new Intl.DateTimeFormat().resolvedOptions().timeZone;

// Where a page names the zone its times are in, or sends it along with a day that was typed.
function nameZone() {
  for (const element of document.querySelectorAll("[data-zone]")) {
    if (element.matches("input")) element.value = zone;
    else element.replaceChildren(...zone.split("/").flatMap((part, place) => place ? ["/", document.createElement("wbr"), part] : [part]));
  }
  for (const field of document.querySelectorAll("input[data-ends]")) {
    const last = new Date(new Date(field.dataset.ends).valueOf() - 1);
    const [month, day] = [last.getMonth() + 1, last.getDate()].map((part) => String(part).padStart(2, "0"));
    field.value = `${last.getFullYear()}-${month}-${day}`;
  }
}

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
  for (const title of root.querySelectorAll("title[data-at]")) {
    title.textContent = title.textContent.replace(title.dataset.utc, hourAndMinute.format(new Date(title.dataset.at)));
    delete title.dataset.at;
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
  if (new URL(answer.url).pathname.endsWith("/login")) {
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

// Groups of undecided messages: labels say how many are ticked, arrows move from box to box.
function decideMany() {
  for (const form of document.querySelectorAll("form[data-many-of-them]")) {
    const boxes = [...form.querySelectorAll("input[name=ids]")];
    const all = form.querySelector("[data-all]");
    if (all === null) continue;
    const number = new Intl.NumberFormat(pageLanguage);
    const count = () => {
      const chosen = boxes.filter((box) => box.checked).length;
      for (const label of form.querySelectorAll("[data-many]")) {
        label.textContent = chosen === 1 ? label.dataset.one : label.dataset.many.replace("{n}", number.format(chosen));
      }
      for (const button of form.querySelectorAll("[popovertarget]:not([popovertargetaction])")) button.disabled = chosen === 0;
      all.checked = chosen === boxes.length;
      all.indeterminate = chosen > 0 && chosen < boxes.length;
    };
    all.hidden = false;
    all.addEventListener("change", () => {
      for (const box of boxes) box.checked = all.checked;
      count();
    });
    boxes.forEach((box, place) => {
      box.addEventListener("change", count);
      box.addEventListener("keydown", (event) => {
        const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
        if (step === undefined) return;
        event.preventDefault();
        boxes[place + step]?.focus();
      });
    });
    count();
  }
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

nameZone();
localise(document);
chooseMany();
decideMany();
showWhatIsUnsaved();
copyOnce();
stayFresh();
