package runner

import (
	"sync"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/tool"
)

// seenHandles is what a body has seen of handles before it waits for them. Of a
// question for the model that came between the two it must be told. All methods
// may be called from any goroutine of the body.
type seenHandles struct {
	mu sync.Mutex
	by map[string]int // by child: how often it had asked the model
}

// note notes how a handle was seen: by its record, which was read first, and by
// what its child came to. A question that was seen there is none that the body
// knows of, if it waits all the same: for who can't reply at once.
func (s *seenHandles) note(rec *session.Handle, h *tool.Handle) {
	asks := rec.Asks
	if asksModel(h) {
		asks--
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == nil {
		s.by = map[string]int{}
	}
	s.by[rec.Child] = asks
}

// asks returns how often a handle had asked the model when it was seen, or, if
// it was not, until now.
func (s *seenHandles) asks(rec *session.Handle) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if asks, seen := s.by[rec.Child]; seen {
		return asks
	}
	return rec.Asks
}

// asksModel reports whether a handle waits for the model's answer.
func asksModel(h *tool.Handle) bool {
	if h.State != tool.HandleWaiting {
		return false
	}
	if h.Pause == nil {
		return h.Content.Question != nil && h.Content.Question.Assistant
	}
	return h.Pause.Await.Reason == tool.ReasonAssistant && h.Pause.Await.Gate == ""
}
