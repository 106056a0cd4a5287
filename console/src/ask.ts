// The page Ask: preview while typing, one at a time and not at every key; the answer in place of the last one.
import { closeCompletion } from "@codemirror/autocomplete"
import type { EditorView } from "@codemirror/view"
import { type Column, editor } from "./editor"
import { post, sentence } from "./server"

const PAUSE = 250
const LOST = "The server could not be reached. What you typed is still here. If it was asked, it is paid once: ask the same again."

export function askPage(): void {
  const form = document.querySelector<HTMLFormElement>("#ask")
  const area = document.querySelector<HTMLTextAreaElement>("#sql")
  const told = document.querySelector("#completion")
  if (!form || !area || !told) return
  new AskPage(form, area, JSON.parse(told.textContent ?? "{}"))
}

class AskPage {
  private readonly view: EditorView
  private readonly preview = document.querySelector<HTMLElement>("#preview")!
  private readonly result = document.querySelector<HTMLElement>("#result")!
  private readonly button = document.querySelector<HTMLButtonElement>("#run")!
  private timer = 0
  private looking = new AbortController()

  constructor(private readonly form: HTMLFormElement, area: HTMLTextAreaElement, declared: Record<string, Column[]>) {
    this.view = editor(area, declared, () => this.soon(), () => form.requestSubmit(this.button))
    document.documentElement.classList.add("enhanced")
    document.querySelector("label[for=sql]")?.addEventListener("click", () => this.view.focus())
    form.addEventListener("input", () => this.soon())
    form.addEventListener("submit", event => this.submitted(event))
    document.addEventListener("click", event => this.clicked(event))
    for (const name of ["within", "epsilon"]) this.field(name)?.addEventListener("focus", () => this.choose(name))
    document.querySelector("#data-choice")?.addEventListener("change", event =>
      (event.target as HTMLSelectElement).form?.requestSubmit())
  }

  private field(name: string): HTMLInputElement | null {
    const found = this.form.querySelectorAll<HTMLInputElement>(`[name="${name}"]`)
    return found[0] ?? null
  }

  private choose(by: string): void {
    const choice = this.form.querySelector<HTMLInputElement>(`[name=by][value=${by}]`)
    if (choice && !choice.checked) { choice.checked = true; this.soon() }
  }

  private write(text: string): void {
    this.view.dispatch({ changes: { from: 0, to: this.view.state.doc.length, insert: text } })
  }

  private soon(): void {
    window.clearTimeout(this.timer)
    this.timer = window.setTimeout(() => void this.look(), PAUSE)
  }

  private async look(): Promise<void> {
    this.looking.abort()
    this.looking = new AbortController()
    const signal = this.looking.signal
    this.preview.classList.add("busy")
    try {
      this.preview.replaceChildren(await post("/ask/preview", this.form, signal))
    } catch {
      if (signal.aborted) return
      this.preview.replaceChildren(sentence("The server could not be reached."))
    }
    this.preview.classList.remove("busy")
  }

  private submitted(event: SubmitEvent): void {
    const by = event.submitter as HTMLButtonElement | null
    if (by?.name === "way") { event.preventDefault(); this.follow(by); return }
    if (by && by !== this.button) return
    event.preventDefault()
    void this.ask(this.form)
  }

  private async ask(form: HTMLFormElement): Promise<void> {
    if (this.button.disabled) return
    closeCompletion(this.view)
    this.button.disabled = true
    const bar = document.createElement("div")
    bar.className = "wait"
    this.result.prepend(bar)
    try {
      this.result.replaceChildren(await post("/ask", form))
    } catch {
      this.result.replaceChildren(sentence(LOST))
    }
    this.button.disabled = false
    this.soon()
  }

  private clicked(event: Event): void {
    const target = event.target as HTMLElement
    const example = target.closest<HTMLElement>("[data-example]")
    if (example) { this.write(example.dataset.example ?? ""); this.view.focus(); return }
    const again = target.closest<HTMLElement>("[data-again]")
    const form = again?.closest("form")
    if (!again || !form) return
    event.preventDefault()
    this.fill(form)
    void this.ask(form)
    this.result.scrollIntoView({ block: "nearest" })
  }

  /** Put an earlier question back into the form, with its terms. */
  private fill(from: HTMLFormElement): void {
    for (const [name, value] of new FormData(from)) if (typeof value === "string") this.set(name, value)
  }

  private set(name: string, value: string): void {
    if (name === "sql") { this.write(value); return }
    if (name === "token" || name === "data") return
    for (const field of this.form.querySelectorAll<HTMLInputElement>(`[name="${name}"]`)) {
      if (field.type === "radio" || field.type === "checkbox") field.checked = field.value === value
      else field.value = value
    }
  }

  /** A way out of a refusal: set what it says, or go to the field that is to be filled in. */
  private follow(way: HTMLButtonElement): void {
    const name = way.dataset.field ?? ""
    const value = way.dataset.value ?? ""
    const field = this.field(name)
    field?.closest("details")?.setAttribute("open", "")
    if (value) {
      this.set(name, value)
      if (name === "epsilon") this.choose("epsilon")
      void this.look()
      if (name === "sql") void this.ask(this.form)
    }
    field?.focus()
  }
}
