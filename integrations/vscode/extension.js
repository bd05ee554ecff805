"use strict";

const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

const SHOW_PLAN = "stateplan.showPlan";
/** Settings that only a new server reads. */
const RESTARTING = ["stateplan.command", "stateplan.sqlFiles", "stateplan.planFiles"];
const SCHEME = "stateplan-explain";

let client;
let explained = 0;
const texts = new Map();

/** The documents that the server looks at. */
function selector(settings) {
  const files = [
    { scheme: "file", language: "sql", pattern: settings.get("sqlFiles") },
    { scheme: "file", language: "stateplan-sql" },
    { scheme: "file", language: "json", pattern: settings.get("planFiles") },
  ];
  return [...files, { scheme: "untitled", language: "stateplan-sql" }];
}

/** The settings that the server reads. */
function serverSettings(settings) {
  return { options: settings.get("options"), init: settings.get("init"), docs: settings.get("docs") };
}

/** Shows the answer of the command of a lens, what EXPLAIN prints, beside the script. */
async function executeCommand(command, args, next) {
  const answer = await next(command, args);
  if (command === SHOW_PLAN && typeof answer === "string") {
    explained += 1;
    const uri = vscode.Uri.from({ scheme: SCHEME, path: `/plan ${explained}.txt` });
    texts.set(uri.toString(), answer);
    const document = await vscode.workspace.openTextDocument(uri);
    await vscode.window.showTextDocument(document, { viewColumn: vscode.ViewColumn.Beside, preview: true });
  }
  return answer;
}

async function start() {
  const settings = vscode.workspace.getConfiguration("stateplan");
  const run = { command: settings.get("command"), args: ["language-server"] };
  client = new LanguageClient("stateplan", "stateplan", run, {
    documentSelector: selector(settings),
    initializationOptions: serverSettings(settings),
    middleware: { executeCommand },
    synchronize: { fileEvents: vscode.workspace.createFileSystemWatcher("**/*.{sql,json,py}") },
  });
  try {
    await client.start();
  } catch (error) {
    const hint = "pip install 'stateplan[editor]', or set 'stateplan.command'";
    vscode.window.showErrorMessage(`stateplan: '${run.command} language-server' does not start: ${error.message}. ${hint}`);
  }
}

async function stop() {
  const running = client;
  client = undefined;
  if (running !== undefined && running.needsStop()) {
    await running.stop();
  }
}

async function activate(context) {
  const provider = { provideTextDocumentContent: (uri) => texts.get(uri.toString()) };
  context.subscriptions.push(
    vscode.workspace.registerTextDocumentContentProvider(SCHEME, provider),
    vscode.workspace.onDidCloseTextDocument((document) => texts.delete(document.uri.toString())),
    vscode.commands.registerCommand("stateplan.restart", async () => {
      await stop();
      await start();
    }),
    vscode.workspace.onDidChangeConfiguration(async (change) => {
      if (RESTARTING.some((key) => change.affectsConfiguration(key))) {
        await stop();
        await start();
      } else if (change.affectsConfiguration("stateplan") && client !== undefined) {
        const settings = serverSettings(vscode.workspace.getConfiguration("stateplan"));
        await client.sendNotification("workspace/didChangeConfiguration", { settings: { stateplan: settings } });
      }
    }),
  );
  await start();
}

module.exports = { activate, deactivate: stop };
