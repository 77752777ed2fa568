package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/fermata-ai/fermata/internal/agentcore"
	"github.com/fermata-ai/fermata/internal/handles"
	"github.com/fermata-ai/fermata/internal/modeltext"
	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/internal/usererr"
	"github.com/fermata-ai/fermata/llm"
)

// aside is what the model is asked beside the conversation: by a request
// without tools, which quotes what it needs of the history as data, and whose
// answer is JSON. It goes to the agent's Inquirer, if there is one. Neither the
// request nor the answer is in the history.
type aside struct {
	about  string // for the log
	text   string
	schema json.RawMessage
	// The agent's instructions go with it.
	instructed bool
	// take stores the answer, or keeps it. A misfit is told the model, which is
	// asked again.
	take func(answer json.RawMessage, used llm.Usage) (misfit, err error)
}

// maxAsked is how often the model is asked, since its answer did not fit.
const maxAsked = 3

// askBeside asks the model, and reports whether it has answered. Otherwise misfit
// is why not, and used what that took. Without either, the drive is to stop: the
// model is asked another time.
func (mc *modelCaller) askBeside(
	ctx context.Context, q *aside,
) (answered bool, misfit error, used llm.Usage, err error) {
	messages, schema := []llm.Message{llm.UserText(q.text)}, q.schema
	for range maxAsked {
		var said llm.Message
		var usage llm.Usage
		said, usage, misfit = mc.ask(ctx, agentcore.Aside{Messages: messages, Schema: schema,
			Metadata: mc.request.Metadata, Instructed: q.instructed})
		used = used.Add(usage)
		switch {
		case mc.life.work.Err() != nil:
			return false, nil, used, context.Cause(mc.life.work)
		case misfit != nil && mc.life.stopping.Err() != nil:
			return false, nil, used, nil
		}
		text := said.Text()
		if misfit == nil {
			_, misfit = strictjson.Parse([]byte(text), strictjson.Strict(true))
		}
		if misfit == nil {
			misfit, err = q.take(json.RawMessage(text), used)
			if err != nil || misfit == nil {
				return err == nil, nil, used, err
			}
		}
		mc.log().Warn("a model didn't answer what it was asked", "about", q.about,
			"session", mc.session, "error", misfit)
		if text == "" {
			schema = nil // a provider may not take one
		} else {
			messages = append(messages, llm.AssistantText(text),
				llm.UserText("That does not fit: "+misfit.Error()))
		}
	}
	return false, misfit, used, nil
}

// ask sends one request.
func (mc *modelCaller) ask(
	ctx context.Context, a agentcore.Aside,
) (m llm.Message, used llm.Usage, err error) {
	defer mc.recovered("the model, asked beside the conversation, or a layer around it,", mc.out, &err)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if stopping := mc.life.stopping; stopping.Done() != nil {
		defer context.AfterFunc(stopping, cancel)()
	}
	collector := llm.Collector{Limit: mc.agent.Limits().Message}
	for ev, err := range mc.core.Inquire(ctx, a) {
		if err == nil {
			err = collector.Add(ev)
		}
		if err != nil {
			return m, used, usererr.Use(err)
		}
	}
	m, fin, err := collector.Message()
	return m, fin.Usage, err
}

// The bounds of what an aside quotes, in bytes.
const (
	maxQuoted     = 4 << 10  // of one text
	maxQuotedOver = 64 << 10 // of the history
)

// quoted is a message of the history, as data. The request has no tools, and
// providers refuse calls of tools that they weren't told of.
type quoted struct {
	Role    llm.Role       `json:"role"`
	Text    string         `json:"text,omitzero"`
	Calls   []quotedCall   `json:"calls,omitempty"`
	Results []quotedResult `json:"results,omitempty"`
}

type quotedCall struct {
	ID        string `json:"id"`
	Tool      string `json:"tool"`
	Arguments string `json:"arguments"`
}

type quotedResult struct {
	Call   string `json:"call"`
	Output string `json:"output"`
}

func quote(text string) string { return handles.Cut(text, maxQuoted, handles.LeftOut) }

func quotedOf(m *llm.Message) quoted {
	q := quoted{Role: m.Role, Text: quote(m.Text())}
	for _, p := range m.Parts {
		switch p := p.(type) {
		case llm.ToolCall:
			q.Calls = append(q.Calls, quotedCall{p.ID, p.Name, quote(string(p.Arguments))})
		case llm.ToolResult:
			q.Results = append(q.Results, quotedResult{p.Call,
				quote(string(modeltext.PlainJSON(p.Output)))})
		}
	}
	return q
}

// quoteHistory returns messages as JSON: the newest ones that are within the
// bound.
func quoteHistory(history []llm.Message) (string, error) {
	var list []json.RawMessage
	size := 0
	for i := range slices.Backward(history) {
		raw, err := strictjson.Append(nil, quotedOf(&history[i]))
		if err != nil {
			return "", err
		}
		if size += len(raw); size > maxQuotedOver {
			break
		}
		list = append(list, raw)
	}
	slices.Reverse(list)
	raw, err := strictjson.Append(nil, list)
	if n := len(history) - len(list); n > 0 {
		return fmt.Sprintf("[%d earlier messages left out]\n%s", n, raw), err
	}
	return string(raw), err
}
