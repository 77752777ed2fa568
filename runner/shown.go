package runner

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"

	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/tool"
)

// Shown returns a name of what a pause shows to the person who answers it: whose
// call it is, of which tool, with which arguments, what is asked, and what an
// answer has to fit. Up to JSON equality the same content has the same name. What
// may change while the pause is open, its deadline and its progress, doesn't
// count.
func Shown(p tool.Pause) string {
	text, err := json.Marshal(shown{
		Pause: p.ID, Session: p.Session, User: p.User, Agent: p.Agent, Tool: p.Tool,
		Arguments: p.Arguments, Reason: p.Await.Reason, Mode: p.Await.Mode, Gate: p.Await.Gate,
		Approvers: p.Await.Approvers,
		Prompt:    p.Await.Prompt, Schema: p.Await.Schema, Question: p.Await.Question,
		Data: p.Await.Data,
	})
	if err == nil {
		var name string
		if name, err = strictjson.Hash(text); err == nil {
			return name
		}
	}
	// What is no strict JSON has a name by its bytes.
	h := sha256.New()
	for _, part := range [][]byte{[]byte(p.ID), p.Arguments, []byte(p.Await.Prompt),
		p.Await.Schema, p.Await.Data} {
		sum := sha256.Sum256(part)
		h.Write(sum[:])
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// shown is what Shown names.
type shown struct {
	Pause     string          `json:"pause"`
	Session   string          `json:"session"`
	User      string          `json:"user"`
	Agent     string          `json:"agent"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Reason    tool.Reason     `json:"reason"`
	Mode      tool.Mode       `json:"mode"`
	Gate      string          `json:"gate"`
	Approvers []string        `json:"approvers,omitempty"`
	Prompt    string          `json:"prompt"`
	Schema    json.RawMessage `json:"schema,omitempty"`
	Question  string          `json:"question"`
	Data      json.RawMessage `json:"data,omitempty"`
}
