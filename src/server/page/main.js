// Puts the page together: its two views, the theme, the key.

import { getJson, onKeyWanted, setKey } from "./api.js";
import { Chat } from "./chat.js";
import { byId, setText } from "./dom.js";
import { ServerView } from "./server_view.js";
import { Settings } from "./settings.js";
import { read, write } from "./store.js";

const settings = new Settings();
const chat = new Chat(settings);
const server = new ServerView();

function showView() {
  const view = location.hash === "#server" ? "server" : "chat";
  document.body.dataset.view = view;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${view}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

const themes = ["system", "light", "dark"];

function showTheme(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  write("browser", "octavo.theme", theme === "system" ? null : theme);
  byId("theme").title = `Theme: ${theme}`;
  byId("theme").setAttribute("aria-label", `Theme: ${theme}`);
}

function nextTheme() {
  const now = document.documentElement.dataset.theme ?? "system";
  showTheme(themes[(themes.indexOf(now) + 1) % themes.length]);
}

// The server is asked who it is until it says so; a server that is not there yet is the live view's news.
async function connect() {
  try {
    const { data } = await getJson("v1/models");
    setText(byId("model"), data[0].id);
    document.title = `${data[0].id} · octavo`;
    settings.offerModels(data.map((model) => model.id));
    chat.setContext(data[0].max_model_len);
    server.start(data[0]);
  } catch (failure) {
    if (failure.status === 401) return;
    server.tell({ level: "bad", title: "Not reachable", reasons: [failure.message] });
    setTimeout(connect, 2000);
  }
}

function askForKey(wasRefused) {
  const dialog = byId("key-dialog");
  byId("key").hidden = false;
  if (wasRefused) setText(byId("key-why"), "The server does not take this key. It is kept until this tab is closed.");
  server.tell({ level: "warn", title: "Key needed", reasons: ["This server answers to callers who have a key."] });
  if (!dialog.open && !dialog.dataset.declined) dialog.showModal();
}

byId("key").addEventListener("click", () => byId("key-dialog").showModal());
function declineKey() {
  byId("key-dialog").dataset.declined = "yes";
  byId("key-dialog").close();
}

byId("key-cancel").addEventListener("click", declineKey);
byId("key-dialog").addEventListener("cancel", declineKey);
byId("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  setKey(byId("key-value").value.trim());
  delete byId("key-dialog").dataset.declined;
  byId("key-dialog").close();
  connect();
});
byId("theme").addEventListener("click", nextTheme);
addEventListener("hashchange", showView);
onKeyWanted(askForKey);
showTheme(read("browser", "octavo.theme") ?? "system");
showView();
connect();
if (matchMedia("(pointer: fine)").matches) byId("draft").focus();
