package waits

import (
	"encoding/json"
	"time"

	"github.com/fermata-ai/fermata/tool"
)

// Listed is the reply of list_wait_handles.
type Listed struct {
	Stats   Stats         `json:"stats"`
	Filters Filters       `json:"filters"`
	Handles []ListedEntry `json:"handles"`
	Next    *string       `json:"nextCursor"`
}

// Stats counts handles.
type Stats struct {
	Total    int      `json:"total"`
	Filtered int      `json:"filtered"`
	ByStatus ByStatus `json:"byStatus"`
	ByType   ByType   `json:"byType"`
}

// ByStatus counts handles by their statuses.
type ByStatus struct {
	Pending   int `json:"pending"`
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
	Timeout   int `json:"timeout"`
}

// ByType counts handles by their types.
type ByType struct {
	Agent    int `json:"agent"`
	Workflow int `json:"workflow"`
	Timer    int `json:"timer"`
	Hook     int `json:"hook"`
	Custom   int `json:"custom"`
}

// Filters are those of a list, as they were used.
type Filters struct {
	Status string `json:"status"`
	Type   string `json:"type"`
}

// ListedEntry is a handle in a list.
type ListedEntry struct {
	ID           string          `json:"id"`
	Type         tool.WaitType   `json:"type"`
	Status       tool.WaitStatus `json:"status"`
	Elapsed      int64           `json:"elapsedMs"`
	ElapsedWords string          `json:"elapsedTime"`
	Start        string          `json:"startTime"`
	HasResult    bool            `json:"hasResult"`
	HasError     bool            `json:"hasError"`
	Metadata     json.RawMessage `json:"metadata"`
	Progress     json.RawMessage `json:"progress,omitzero"`
}

// ListedPage returns the reply that shows a page.
func ListedPage(p *Page, f *Filter, now time.Time) Listed {
	s, t := p.ByStatus, p.ByType
	l := Listed{
		Stats: Stats{Total: p.Total, Filtered: p.Filtered,
			ByStatus: ByStatus{s[tool.WaitPending], s[tool.WaitCompleted], s[tool.WaitFailed],
				s[tool.WaitTimeout]},
			ByType: ByType{t[tool.AgentWait], t[tool.WorkflowWait], t[tool.TimerWait],
				t[tool.HookWait], t[tool.CustomWait]}},
		Filters: Filters{Status: orAll(f.Status), Type: orAll(f.Type)},
		Handles: []ListedEntry{},
	}
	for i := range p.Waits {
		w := &p.Waits[i]
		took := elapsed(w, now)
		l.Handles = append(l.Handles, ListedEntry{ID: w.ID, Type: w.Type, Status: w.Status,
			Elapsed: MS(took), ElapsedWords: Duration(took), Start: Time(w.Start),
			HasResult: w.Status == tool.WaitCompleted,
			HasError:  w.Ended() && w.Status != tool.WaitCompleted,
			Metadata:  orNull(w.Metadata), Progress: w.Progress})
	}
	if p.Next != "" {
		l.Next = &p.Next
	}
	return l
}

func orAll[T ~string](s T) string {
	if s == "" {
		return All
	}
	return string(s)
}
