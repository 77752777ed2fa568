package fakellm_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
)

func TestRequestsAreCopies(t *testing.T) {
	native := func() *llm.Native { return &llm.Native{Provider: "p", Data: raw(`{"a":1}`)} }
	req := llm.Request{
		Messages: []llm.Message{
			{Role: llm.RoleUser, Extra: raw(`{"x":1}`), Parts: []llm.Part{
				llm.Text{Text: "t", Native: native()}, llm.Media{MediaType: "m", Data: []byte("d1"), Native: native()},
				llm.Opaque{Native: *native()}, llm.Unknown{Type: "u", Raw: raw(`{"type":"u"}`)},
			}},
			{Role: llm.RoleAssistant, Parts: []llm.Part{
				llm.Reasoning{Text: "r", Native: native()}, llm.ToolCall{ID: "c", Name: "deploy", Arguments: raw(`{"v":1}`), Native: native()},
			}},
			results(llm.ToolResult{Call: "c", Name: "deploy", Output: raw(`"ok1"`)}),
		},
		Tools:    []llm.ToolDef{{Name: "deploy", Input: raw(`{"type":"object","properties":{}}`), Output: raw(`{"a":1}`)}},
		Metadata: map[string]string{"session": "s"},
	}
	m := fakellm.New(fakellm.Says("first").Times(2), fakellm.Says("x").Forever())
	said(m, req)
	said(m, req) // what it knows already isn't copied again
	want := dump(t, req)
	scribble(&req)
	if dump(t, req) == want {
		t.Fatal("nothing was changed")
	}
	said(m, req)
	got := m.Requests()
	if len(got) != 3 || dump(t, got[0]) != want || dump(t, got[1]) != want {
		t.Errorf("%d requests, the first\n%s\nand\n%s\nwant\n%s", len(got), dump(t, got[0]), dump(t, got[1]), want)
	}
	if dump(t, got[2]) != dump(t, req) {
		t.Error("a change since the request before went unseen")
	}
	got[0].Messages = nil
	if dump(t, m.Requests()[0]) != want {
		t.Error("the list is shared")
	}
}

// The model takes no message for one that it knows if anything in it has
// changed.
func TestEveryChangeIsSeen(t *testing.T) {
	a, b := &llm.Native{Provider: "a", Data: raw("1")}, &llm.Native{Provider: "b", Data: raw("1")}
	c := &llm.Native{Provider: "a", Data: raw("2")}
	for _, variants := range [][]llm.Part{
		{llm.Text{Text: "a"}, llm.Text{Text: "b"}, llm.Text{Text: "b", Native: a}, llm.Text{Text: "b", Native: b}, llm.Text{Text: "b", Native: c}, llm.Text{Text: "a", Native: c}},
		{llm.Reasoning{Text: "a"}, llm.Reasoning{Text: "b"}, llm.Reasoning{Text: "b", Native: a}, llm.Reasoning{Text: "a", Native: a}, llm.Text{Text: "a", Native: a}},
		{llm.ToolCall{ID: "a"}, llm.ToolCall{ID: "b"}, llm.ToolCall{ID: "b", Name: "n"}, llm.ToolCall{ID: "b", Name: "n", ProviderID: "p"},
			llm.ToolCall{ID: "b", Name: "n", ProviderID: "p", Arguments: raw("1")}, llm.ToolCall{ID: "b", Name: "n", ProviderID: "p", Arguments: raw("1"), Native: a}},
		{llm.ToolResult{Call: "a"}, llm.ToolResult{Call: "b"}, llm.ToolResult{Call: "b", Name: "n"}, llm.ToolResult{Call: "b", Name: "n", Error: true},
			llm.ToolResult{Call: "b", Name: "n", Error: true, Output: raw("1")}, llm.Text{Text: "x"}},
		{llm.Media{MediaType: "a"}, llm.Media{MediaType: "b"}, llm.Media{MediaType: "b", Name: "n"}, llm.Media{MediaType: "b", Name: "n", URL: "u"},
			llm.Media{MediaType: "b", Name: "n", URL: "u", Data: []byte("1")}, llm.Media{MediaType: "b", Name: "n", URL: "u", Data: []byte("1"), Native: a}},
		{llm.Opaque{Native: *a}, llm.Opaque{Native: *b}, llm.Opaque{Native: *c}, nil, llm.Text{Text: "x"}},
		{llm.Unknown{Type: "a"}, llm.Unknown{Type: "b"}, llm.Unknown{Type: "b", Raw: raw(`{"type":"b"}`)}, llm.Opaque{Native: *a}},
	} {
		for i := 1; i < len(variants); i++ {
			before, after := variants[i-1], variants[i]
			if !fakellm.SamePart(before, before) && before != nil {
				t.Errorf("%#v isn't the same as itself", before)
			}
			if fakellm.SamePart(before, after) || fakellm.SamePart(after, before) {
				t.Errorf("%#v and %#v are taken for the same", before, after)
			}
		}
	}
}

// scribble changes every byte that a request could share.
func scribble(req *llm.Request) {
	over := func(b []byte) {
		for i, c := range b {
			if c == '1' {
				b[i] = '2'
			}
		}
	}
	native := func(n *llm.Native) { over(n.Data) }
	for _, m := range req.Messages {
		over(m.Extra)
		for i, p := range m.Parts {
			switch p := p.(type) {
			case llm.Text:
				native(p.Native)
			case llm.Reasoning:
				native(p.Native)
			case llm.ToolCall:
				over(p.Arguments)
				native(p.Native)
			case llm.ToolResult:
				over(p.Output)
			case llm.Media:
				over(p.Data)
				native(p.Native)
			case llm.Opaque:
				native(&p.Native)
			case llm.Unknown:
				m.Parts[i] = llm.Unknown{Type: p.Type, Raw: raw(`{"type":"u","z":2}`)}
			}
		}
	}
	for _, t := range req.Tools {
		over(t.Output)
	}
	req.Metadata["later"] = "x"
}

func dump(t *testing.T, req llm.Request) string {
	var b []byte
	for _, m := range req.Messages {
		var err error
		if b, err = m.AppendJSON(append(b, '\n')); err != nil {
			t.Fatal(err)
		}
	}
	return fmt.Sprintf("%s %s %v", b, req.Tools, req.Metadata)
}

func TestAnUnchangedFaultIsFoundEachTime(t *testing.T) {
	m := fakellm.Echo()
	good := request(user("hi"), assistant(llm.Text{Text: "hello"}), user("more"))
	bad := request(user("hi"), assistant(llm.Text{Text: "hello", Native: &llm.Native{Data: raw("{")}}), user("more"))
	for i, req := range []llm.Request{good, bad, bad, good, bad} {
		got := said(m, req)
		if isBad := i != 0 && i != 3; strings.Contains(got, "no JSON") != isBad {
			t.Errorf("%d: %s", i, got)
		}
	}
}

func TestParallelSessions(t *testing.T) {
	m := fakellm.New(fakellm.Fails(errors.New("busy")), fakellm.Calls("deploy", `{}`), fakellm.Says("done"))
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			req := request(user(fmt.Sprint("session ", i)))
			req.Metadata = map[string]string{"session": fmt.Sprint(i)}
			if got := said(m, req); got != "error: busy" {
				t.Error(got)
			}
			req = answered(t, m, req)
			if got := said(m, req); got != "done" {
				t.Error(got)
			}
			_ = m.Requests()
		})
	}
	wg.Wait()
	if n := len(m.Requests()); n != 60 {
		t.Errorf("%d requests", n)
	}
}
