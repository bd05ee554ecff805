/* Expired rows that later rows needed, as far as an audit of the state has seen them. */

import { h, keyed, row, say, section, show, table } from "./dom.js";
import { instant } from "./format.js";

const COLUMNS = ["State", "Lost row", "Expired", "Needed", "By"];

const lostRow = () => {
  const { node, cells } = row(COLUMNS);
  return {
    node,
    update: (lost) => [lost.state, lost.row, instant(lost.expired), instant(lost.needed), lost.by ?? ""].forEach((text, i) => say(cells[i], text)),
  };
};

export const lostPart = () => {
  const found = table("Lost rows", COLUMNS);
  const note = h("p", { class: "dim" });
  const part = section("Lost rows", found, note);
  const rows = keyed(found, (lost) => lost.key, lostRow);
  show(part.node, false);
  return {
    node: part.node,
    update: (job) => {
      const lost = (job.lostRows ?? []).map((one, index) => ({ ...one, key: index }));
      show(part.node, lost.length > 0);
      rows(lost);
      const share = lost[0]?.oneIn > 1 ? ` One in ${lost[0].oneIn} keys is followed.` : "";
      say(note, `Rows that had expired when a later row needed them; the newest first, 20 at most.${share}`);
    },
  };
};
