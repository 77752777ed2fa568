package waits

import "github.com/fermata-ai/fermata/tool"

// TaskSpec returns what a tool for tasks declares, without an Output; the zero
// Spec: there is no such tool.
func TaskSpec(name string) tool.Spec {
	s := tool.Spec{Name: name, Effect: tool.Idempotent}
	const id = `{"type":"string","description":"The task's id: ` + idWords + `."}`
	switch name {
	case CreateTask:
		s.MayPause = true // as the call of the task's handle
		s.Description = "Note a task that is to be done, by you or by others. It is a wait handle, " +
			"too: wait_for with the task's id waits until it has ended."
		s.Input = closed(`"taskId":{"type":"string","description":"The task's id: `+idWords+
			`. Without it one is made of the title."},`+
			`"title":{"type":"string","minLength":1,"maxLength":200},`+
			`"description":{"type":"string","maxLength":2000},`+
			`"due":`+timeSchema("Until when it should be done. Nothing ends it then.")+`,`+
			`"dueMs":{"type":"integer","minimum":1,"description":"In place of due: in how many `+
			`milliseconds."},`+
			`"handleIds":{"type":"array","items":{"type":"string"},"maxItems":20,"description":`+
			`"Wait handles that are to end with the task."}`, "title")
	case UpdateTask:
		s.Description = "Change the status of a task. completed, failed and cancelled are final: " +
			"the task's handle ends, and the handles that were to end with it. Who waits for them " +
			"goes on."
		s.Input = closed(`"taskId":`+id+`,"status":`+oneOf("The new status.", TaskStatuses())+
			`,"note":{"type":"string","maxLength":2000,"description":"Why, or how far it is."},`+
			`"result":{"description":"With completed: any JSON value, for those who wait."}`,
			"taskId", "status")
	case ListTasks:
		s.Effect = tool.ReadOnly
		s.Description = "List tasks: on a page, those first that are due first."
		s.Input = closed(`"filter":` + oneOf("Only those; without it all.", TaskStatuses(), OpenTasks,
			OverdueTasks, All) + pageSchema(" A page may have fewer."))
	default:
		return tool.Spec{}
	}
	return s
}

// timeSchema is that of a time: RFC 3339, or a date and a time in a zone.
func timeSchema(words string) string {
	return `{"anyOf":[{"type":"string","description":"A time by RFC 3339."},` +
		`{"type":"object","properties":{"date":{"type":"string","description":"YYYY-MM-DD"},` +
		`"time":{"type":"string","description":"HH:MM or HH:MM:SS"},"zone":{"type":"string",` +
		`"description":"An IANA zone, such as Europe/Berlin."}},"required":["date","time","zone"],` +
		`"additionalProperties":false}],"description":"` + words + `"}`
}
