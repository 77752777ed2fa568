package waits

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// The names of the tools.
const (
	Sleep        = "sleep"
	Create       = "create_wait_handle"
	WaitFor      = "wait_for"
	WaitMultiple = "wait_for_multiple"
	Complete     = "complete_wait_handle"
	List         = "list_wait_handles"
	Report       = "report_wait_handle"
	ExecuteAgent = "execute_agent_async"

	ExecuteWorkflow = "execute_workflow_async"
)

// The schemas of parameters that several tools have.
const (
	idSchema = `{"type":"string","description":"The handle's id: ` + idWords + `."}`
	patience = `{"type":"integer","minimum":0,"description":"How many milliseconds to wait at ` +
		`most; without it, as long as it takes. ` + goesOn + `"}`
	goesOn     = `The handle goes on all the same.`
	pollSchema = `{"type":"integer","description":"Has no effect: nothing polls."}`
)

// closed returns the schema of an object with these properties and no others.
func closed(properties string, required ...string) json.RawMessage {
	must := ""
	if len(required) > 0 {
		must = `"required":["` + strings.Join(required, `","`) + `"],`
	}
	return json.RawMessage(`{"type":"object","properties":{` + properties + `},` + must +
		`"additionalProperties":false}`)
}

// oneOf returns the schema of a string that is one of these.
func oneOf[T ~string](words string, all []T, more ...T) string {
	var quoted []string
	for _, v := range append(all, more...) {
		quoted = append(quoted, `"`+string(v)+`"`)
	}
	return fmt.Sprintf(`{"type":"string","enum":[%s],"description":%q}`, strings.Join(quoted, ","),
		words)
}

// Spec returns what a tool declares, without an Output; the zero Spec: there is
// no such tool.
func Spec(name string) tool.Spec {
	s := tool.Spec{Name: name, Effect: tool.Idempotent, MayPause: true}
	switch name {
	case Sleep:
		s.Description = "Wait for a time: for durationMs, or until a time. Nothing else of this " +
			"turn goes on meanwhile but its other calls."
		s.Effect = tool.ReadOnly
		s.Input = closed(`"durationMs":{"type":"integer","description":"How many milliseconds."},` +
			`"until":{"anyOf":[{"type":"string","description":"A time by RFC 3339."},` +
			`{"type":"object","properties":{"date":{"type":"string","description":"YYYY-MM-DD"},` +
			`"time":{"type":"string","description":"HH:MM or HH:MM:SS"},"zone":{"type":"string",` +
			`"description":"An IANA zone, such as Europe/Berlin."}},"required":["date","time","zone"],` +
			`"additionalProperties":false}],"description":"Until when, in place of durationMs."},` +
			`"label":{"type":"string","description":"What the wait is for."}`)
	case Create:
		s.Description = "Make a wait handle: a name for something that happens outside, and that " +
			"ends once. It returns at once; wait_for waits for its end. A timer ends by itself " +
			"after timeoutMs. A hook's reply has the token by which an outside system ends it. " +
			"Every other handle is ended by complete_wait_handle."
		s.Input = closed(`"handleId":`+idSchema+`,"type":`+
			oneOf("What it stands for.", tool.WaitTypes())+
			`,"metadata":{"type":"object","description":"What to note with it."},`+
			`"timeoutMs":{"type":"integer","minimum":1,"description":"After how many `+
			`milliseconds from now it ends as timeout. A timer needs it, and completes by it."}`,
			"handleId", "type")
	case WaitFor:
		s.Description = "Wait until a wait handle has ended, and return how."
		s.Effect = tool.ReadOnly
		s.Input = closed(`"handleId":`+idSchema+`,"timeoutMs":`+patience+`,"pollIntervalMs":`+
			pollSchema, "handleId")
	case WaitMultiple:
		s.Description = "Wait for several wait handles. Mode all: each has ended, well or badly. " +
			"Mode any: the first has completed, or all have failed. Mode race: the first has " +
			"ended, well or badly."
		s.Effect = tool.ReadOnly
		s.Input = closed(`"handleIds":{"type":"array","items":{"type":"string"},"description":`+
			`"Their ids."},"mode":`+oneOf("What to wait for.", Modes())+`,"timeoutMs":`+patience+
			`,"pollIntervalMs":`+pollSchema, "handleIds", "mode")
	case Complete:
		s.Description = "End a wait handle: with a result, or with an error. Who waits for it goes " +
			"on. A handle ends once."
		s.MayPause = false
		s.Input = closed(`"handleId":`+idSchema+`,"result":{"description":"Any JSON value: it has `+
			`completed."},"error":{"type":"string","description":"Why it has failed."}`, "handleId")
	case List:
		s.Description = "List wait handles, with how many there are."
		s.Effect, s.MayPause = tool.ReadOnly, false
		s.Input = closed(`"status":` + oneOf("Only those.", tool.WaitStatuses(), All) +
			`,"type":` + oneOf("Only those.", tool.WaitTypes(), All) +
			pageSchema(""))
	case Report:
		s.Description = "Tell how far a wait handle is. Lists, and those that wait for it, are shown " +
			"the latest. It doesn't end the handle."
		s.MayPause = false
		s.Input = closed(`"handleId":`+idSchema+`,"progress":{"description":"Any JSON value but `+
			`null."}`, "handleId", "progress")
	default:
		return tool.Spec{}
	}
	return s
}

// EndingWaitFor returns what wait_for declares where the patience of a call ends
// the handle.
func EndingWaitFor() tool.Spec {
	s := Spec(WaitFor)
	s.Effect = tool.Idempotent
	s.Input = json.RawMessage(strings.Replace(string(s.Input), goesOn,
		"Then the handle ends as timeout, for all that wait for it.", 1))
	return s
}

// AgentSpec returns what execute_agent_async declares, with these agents and
// models.
func AgentSpec(agents, models []string) tool.Spec {
	properties := `"agentId":` + oneOf("Which agent.", agents) +
		`,"prompt":{"type":"string","description":"What the agent is told: it knows nothing else ` +
		`of this conversation."}`
	if len(models) > 0 {
		properties += `,"model":` + oneOf("Which model, in place of the agent's own.", models)
	}
	properties += `,"timeoutMs":{"type":"integer","minimum":1,"description":"After how many ` +
		`milliseconds from now it is stopped, and its handle ends as timeout."}`
	return tool.Spec{Name: ExecuteAgent, Effect: tool.Idempotent, MayPause: true,
		Description: "Have an agent work beside this conversation. It returns at once, with the " +
			"id of a wait handle: wait_for, wait_for_multiple and list_wait_handles take it.",
		Input: closed(properties, "agentId", "prompt")}
}

// WorkflowSpec returns what execute_workflow_async declares, with these tools for
// steps.
func WorkflowSpec(tools []llm.ToolDef, most int) tool.Spec {
	var names []string
	steps := "\n\nThe tools of steps, with the schemas of their arguments"
	for _, t := range tools {
		names = append(names, t.Name)
		steps += fmt.Sprintf("\n- %s: %s Arguments: %s", t.Name, t.Description, t.Input)
		if len(t.Output) > 0 && string(t.Output) != "{}" {
			steps += fmt.Sprintf(" Output: %s", t.Output)
		}
	}
	const name = `{"type":"string","description":"1 to 40 letters, digits, _ or -"}`
	const stepNames = `{"type":"array","items":{"type":"string"},"description":"Steps that have ` +
		`to be over before it, beside those that it refers to."}`
	const retry = `{"type":"object","properties":{"times":{"type":"integer","minimum":1},` +
		`"delayMs":{"type":"integer","minimum":0},"mostMs":{"type":"integer","minimum":0}},` +
		`"required":["times"],"additionalProperties":false,"description":"How often it is begun ` +
		`again if it fails, and after how long at first; that doubles, up to mostMs."}`
	step := closed(`"name":`+name+`,"tool":`+oneOf("Which tool.", names)+
		`,"arguments":{"type":"object","description":"The tool's. {\"from\":\"/steps/a/x\"} stands `+
		`for x of what step a comes to, {\"from\":\"/input/x\"} for x of the input."},"after":`+
		stepNames+`,"onFailure":{"type":"string","enum":["continue"],"description":"If it fails, the `+
		`others go on; otherwise the workflow has failed."},"retry":`+retry+`,"compensate":`+
		`{"type":"string","description":"The step that takes it back if the workflow fails."}`,
		"name", "tool")
	properties := fmt.Sprintf(`"workflowId":%s,"name":{"type":"string","minLength":1,"maxLength":200,`+
		`"description":"What it does, in a few words."},"steps":{"type":"array","items":%s,"minItems":1,`+
		`"maxItems":%d},"input":{"description":"Any JSON value, for steps to refer to."},`+
		`"timeoutMs":{"type":"integer","minimum":1,"description":"After how many milliseconds `+
		`from now it is stopped, and its handle ends as timeout."}`,
		`{"type":"string","minLength":1,"maxLength":40,"description":"A short name; its handle's id `+
			`is made of it."}`, step, most)
	return tool.Spec{Name: ExecuteWorkflow, Effect: tool.Idempotent, MayPause: true,
		Description: "Have a list of steps carried out beside this conversation. Each step is a call " +
			"of a tool, and begins when what it refers to is there; steps that need nothing of each " +
			"other run at the same time. It returns at once, with the id of a wait handle: wait_for, " +
			"wait_for_multiple and list_wait_handles take it. Its result has what each step came to." +
			steps,
		Input: closed(properties, "workflowId", "name", "steps")}
}

// All is the filter that selects all.
const All = "all"

// The bounds of a page.
const (
	DefaultLimit = 50
	maxLimit     = 100
)

// pageSchema is that of which page of a list is wanted, and more words of its size.
func pageSchema(words string) string {
	return fmt.Sprintf(`,"limit":{"type":"integer","minimum":1,"maximum":%d,"description":"How many `+
		`at most; without it %d.%s"},"cursor":{"type":"string","description":"The nextCursor of the `+
		`page before."}`, maxLimit, DefaultLimit, words)
}

// Mode is what a wait for several handles ends by.
type Mode string

// The modes.
const (
	ModeAll  Mode = "all"  // each has ended
	ModeAny  Mode = "any"  // the first has completed, or all have failed
	ModeRace Mode = "race" // the first has ended
)

// Modes returns all modes.
func Modes() []Mode { return []Mode{ModeAll, ModeAny, ModeRace} }
