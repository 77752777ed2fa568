package handle

import (
	"sync"
	"unicode/utf8"

	"github.com/fermata-ai/fermata/internal/handles"
	"github.com/fermata-ai/fermata/tool"
)

// maxGathered is how many bytes are kept of the head, and of the tail, of what a
// body has produced.
const maxGathered = 24 << 10

// gathered is what a body has produced so far. All methods may be called from
// any goroutine.
type gathered struct {
	mu  sync.Mutex // also held while the content is handed on, so that it stays in order
	all tool.Content
}

// add adds what is new, and hands on what there is then.
func (g *gathered) add(u Update, hand func(tool.Content)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := &g.all
	c.Total += len(u.Content)
	if c.Screen = u.Screen != nil; c.Screen {
		c.Head, c.Tail = "", u.Content
	} else {
		room := 0
		if c.Total-len(u.Content) == len(c.Head) { // nothing is behind the head yet
			room = min(maxGathered-len(c.Head), len(u.Content))
			for room > 0 && room < len(u.Content) && !utf8.RuneStart(u.Content[room]) {
				room--
			}
		}
		c.Head += u.Content[:room]
		c.Tail = lastBytes(c.Tail+u.Content[room:], maxGathered)
	}
	c.Question = nil
	if q := u.Question; q != nil {
		c.Question = &tool.LiveQuestion{
			ID: q.ID, Text: q.Text, Schema: q.Schema, Assistant: q.For == handles.Assistant,
		}
	}
	hand(*c)
}

// lastBytes returns the last bytes of a text, whole characters, so many at most.
func lastBytes(s string, most int) string {
	if len(s) <= most {
		return s
	}
	from := len(s) - most
	for from < len(s) && !utf8.RuneStart(s[from]) {
		from++
	}
	return s[from:]
}
