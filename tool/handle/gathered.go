package handle

import (
	"strings"
	"sync"

	"github.com/fermata-ai/fermata/internal/handles"
	"github.com/fermata-ai/fermata/tool"
)

// gathered is what a body has produced so far: as much of its head, and of its
// tail, as is kept. All methods may be called from any goroutine.
type gathered struct {
	mu  sync.Mutex // also held while the content is handed on, so that it stays in order
	all tool.Content
}

// add adds what is new, and hands on what there is then.
func (g *gathered) add(u Update, hand func(tool.Content)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c, text := &g.all, strings.ToValidUTF8(u.Content, "\ufffd")
	if c.Screen = u.Screen != nil; c.Screen {
		c.Total += len(text)
		c.Head, c.Tail = "", handles.Tail(text, handles.MaxHalf)
	} else {
		*c = handles.Appended(*c, text)
	}
	c.Question = nil
	if q := u.Question; q != nil {
		c.Question = &tool.LiveQuestion{
			ID: q.ID, Text: q.Text, Schema: q.Schema, Assistant: q.For == handles.Assistant,
		}
	}
	hand(*c)
}
