// The SQL editor: completion from what the owner declared, colours from the page, styles by the page's nonce.
import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete"
import type { Completion } from "@codemirror/autocomplete"
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands"
import { PostgreSQL, sql } from "@codemirror/lang-sql"
import { bracketMatching, HighlightStyle, syntaxHighlighting } from "@codemirror/language"
import { EditorState, Prec } from "@codemirror/state"
import { drawSelection, EditorView, highlightSpecialChars, keymap } from "@codemirror/view"
import { tags } from "@lezer/highlight"
import { styleNonce } from "./server"

export type Column = { name: string; type: string }

const colours = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--accent)", fontWeight: "600" },
  { tag: [tags.string, tags.number, tags.bool, tags.null], color: "var(--good)" },
  { tag: [tags.lineComment, tags.blockComment], color: "var(--soft)", fontStyle: "italic" },
])

const theme = EditorView.theme({
  ".cm-content": { padding: "10px 4px", caretColor: "var(--text)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { background: "var(--tint)" },
  ".cm-tooltip": { background: "var(--card)", color: "var(--text)", border: "1px solid var(--line)", borderRadius: "8px" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { background: "var(--tint)", color: "var(--text)" },
  ".cm-completionDetail": { color: "var(--soft)", fontStyle: "normal", marginLeft: "1em" },
  ".cm-matchingBracket": { background: "var(--tint)" },
})

function completion(declared: Record<string, Column[]>): Record<string, Completion[]> {
  const told = Object.entries(declared).map(([table, columns]): [string, Completion[]] => [
    table,
    columns.map(column => ({ label: column.name, detail: column.type, type: "property" })),
  ])
  return Object.fromEntries(told)
}

/** Text typed over a selection. Left to itself, Chromium keeps the look of what was there by a style attribute, which the
 * page's policy refuses: so the editor replaces it. */
function typedOver(event: InputEvent, view: EditorView): boolean {
  const { from, to, empty } = view.state.selection.main
  if (event.inputType !== "insertText" || !event.data || event.isComposing || empty) return false
  const text = event.data
  const insert = () => view.state.update(view.state.replaceSelection(text), { userEvent: "input.type", scrollIntoView: true })
  const handled = view.state.facet(EditorView.inputHandler).some(handle => handle(view, from, to, text, insert))
  if (!handled) view.dispatch(insert())
  event.preventDefault()
  return true
}

export function editor(
  area: HTMLTextAreaElement, declared: Record<string, Column[]>, changed: () => void, run: () => void,
): EditorView {
  const schema = completion(declared)
  const state = EditorState.create({
    doc: area.value,
    extensions: [
      Prec.highest(keymap.of([{ key: "Mod-Enter", run: () => (run(), true) }])),
      highlightSpecialChars(), history(), drawSelection(), bracketMatching(), closeBrackets(),
      autocompletion({ icons: false }),
      keymap.of([...closeBracketsKeymap, ...defaultKeymap, ...historyKeymap, ...completionKeymap]),
      sql({ dialect: PostgreSQL, schema, defaultTable: Object.keys(schema)[0], upperCaseKeywords: true }),
      syntaxHighlighting(colours), theme, EditorView.lineWrapping, EditorView.cspNonce.of(styleNonce),
      EditorView.contentAttributes.of({ "aria-label": "Your question, in SQL" }),
      EditorView.domEventHandlers({ beforeinput: typedOver }),
      EditorView.updateListener.of(update => {
        if (!update.docChanged) return
        area.value = update.state.doc.toString()
        changed()
      }),
    ],
  })
  const view = new EditorView({ state })
  area.before(view.dom)
  return view
}
