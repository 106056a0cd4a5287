// What a page gains from a script: the editor, the preview while typing, answers without a reload, sliders.
// Every form works without it; nothing here decides what is asked, charged or shown.
import { askPage } from "./ask"
import { sliders } from "./sliders"
import { waiting } from "./waiting"

askPage()
sliders()
waiting()
