package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/llmtest"
)

// Each provider can be asked to go on with a history that other providers,
// tools and users have written: its request is made, with every call and its
// result, and with what was signed by that provider alone.
func TestEveryHistoryCanBeSentToEveryProvider(t *testing.T) {
	t.Parallel()
	var sent []byte
	refuse := transport(func(r *http.Request) (*http.Response, error) {
		sent, _ = io.ReadAll(r.Body)
		body := io.NopCloser(
			strings.NewReader(
				`{"error":{"message":"that will do","code":400,"status":"INVALID_ARGUMENT"}}`))
		return &http.Response{StatusCode: 400,
			Header: http.Header{"Content-Type": {"application/json"}}, Body: body, Request: r}, nil
	})
	all := adapters()
	models := make([]llm.Model, len(all))
	for i, p := range all {
		models[i] = p.New(t,
			llmtest.Options{BaseURL: "http://127.0.0.1:1", Client: &http.Client{Transport: refuse}})
	}
	own := map[string]bool{} // whose signature has gone back to it
	for seed := range uint64(400) {
		history, calls := mixed(rand.New(rand.NewPCG(seed, 7)), all)
		for i, p := range all {
			sent = nil
			_, _, err := llm.Collect(models[i].Generate(t.Context(),
				llm.Request{Messages: history, Tools: []llm.ToolDef{{Name: "look"}}}))
			if !json.Valid(sent) {
				t.Fatalf("seed %d, %s: no request was made: %v", seed, p.Name, err)
			}
			for _, other := range all {
				if other.Name != p.Name && strings.Contains(string(sent), signed(other.Name)) {
					t.Errorf("seed %d: %s is sent what %s signed: %s",
						seed, p.Name, other.Name, sent)
				}
			}
			for _, m := range history {
				for _, n := range m.Notices() {
					if strings.Count(string(sent), n.Handle) != 1 {
						t.Errorf("seed %d, %s: the model isn't told of %s, or twice: %s",
							seed, p.Name, n.Handle, sent)
					}
				}
			}
			own[p.Name] = own[p.Name] || strings.Contains(string(sent), signed(p.Name))
			if calls == 0 {
				continue
			}
			asked, answered := p.Calls(sent)
			slices.Sort(asked)
			slices.Sort(answered)
			if len(asked) != calls || !slices.Equal(asked, answered) {
				t.Errorf("seed %d, %s: of %d calls, %q were sent, and results for %q",
					seed, p.Name, calls, asked, answered)
			}
		}
	}
	if len(own) != len(all) ||
		slices.ContainsFunc(all, func(p llmtest.Provider) bool { return !own[p.Name] }) {
		t.Errorf("what was signed went back to %v alone", own)
	}
}

// signed returns the text that a provider signs with.
func signed(provider string) string { return "signed-by-" + strings.ReplaceAll(provider, "/", "-") }

// mixed returns a history in which several providers had a part, and how many
// calls are in it.
func mixed(r *rand.Rand, all []llmtest.Provider) (history []llm.Message, calls int) {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	media := func() llm.Media {
		m := llm.Media{
			MediaType: pick("image/png", "image/bmp", "application/pdf", "audio/wav", "text/csv",
				"x", "application/json", "IMAGE/PNG"), Name: pick("", "a.png", "ä <&>")}
		if r.IntN(3) == 0 {
			m.URL = pick("https://example.com/a",
				"data:image/png;base64,aGk=", "data:;base64,!!", "gs://a/b", "no url")
		} else {
			m.Data = []byte("\x89PNG")
		}
		return m
	}
	history = []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.Text{Text: "Hi."}, media()}}}
	for range 1 + r.IntN(4) {
		by := all[r.IntN(len(all))].Name
		said, results := llm.Message{Role: llm.RoleAssistant}, llm.Message{Role: llm.RoleTool}
		for range 1 + r.IntN(3) {
			said.Parts = append(said.Parts, []llm.Part{
				llm.Reasoning{Text: "Hm.", Native: native(by)}, llm.Text{Text: "I see."}, media(),
				llm.Opaque{Native: llm.Native{Provider: "elsewhere", Data: json.RawMessage(`{}`)}},
				llm.Unknown{Type: "later", Raw: json.RawMessage(`{"type":"later"}`)},
			}[r.IntN(5)])
		}
		for range r.IntN(3) {
			c := llm.ToolCall{
				ID:         fmt.Sprintf("call_%d", calls),
				Name:       pick("look", "invalid_a_b", strings.Repeat("n", 64)),
				ProviderID: pick("", "call_0", "call|x/y", strings.Repeat("i", 200)),
				Arguments: json.RawMessage(pick(`{}`, `{"a":9007199254740993}`,
					`"(cut off before its arguments came)"`, `"{\"a\":"`, `[1]`, `{"a":1,"a":2}`)),
			}
			calls++
			said.Parts = append(said.Parts, c)
			results.Parts = append(results.Parts, llm.ToolResult{
				Call: c.ID, Name: c.Name,
				Output: json.RawMessage(pick(`"x"`, `""`, `null`, `{"$ref":"a"}`, `[]`, `1`)),
				Error:  r.IntN(2) == 0, Media: []llm.Media{media()},
			})
		}
		for range max(0, r.IntN(4)-1) {
			results.Parts = append(results.Parts, llm.Notice{
				Handle: fmt.Sprintf("handle-%d-%d", len(history), len(results.Parts)),
				State:  pick("stopped", "waiting"), Text: pick("", "ok\n", "[End of notice]"),
			})
		}
		history = append(history, said)
		if len(results.Parts) > 0 {
			history = append(history, results)
		}
		if len(results.Parts) == 0 || r.IntN(3) == 0 {
			history = append(history, llm.UserText("And?"))
		}
	}
	return history, calls
}

// native returns reasoning as a provider signed it.
func native(by string) *llm.Native {
	form := map[string]string{
		"anthropic":        `{"type":"thinking","thinking":"Hm.","signature":%q}`,
		"gemini":           `{"text":"Hm.","thought":true,"thoughtSignature":%q}`,
		"openai.responses": `{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":%q}`,
	}[by]
	if form == "" {
		form = `{"reasoning_details":[{"type":"reasoning.encrypted","data":%q}]}`
	}
	return &llm.Native{Provider: by, Data: json.RawMessage(fmt.Sprintf(form, signed(by)))}
}

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }
