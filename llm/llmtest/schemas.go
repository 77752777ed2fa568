package llmtest

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/internal/handles"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// schemas compares how awkward tools are told to the provider with golden
// files; a tool that it can't be told, with the error.
func schemas(t *testing.T, p Provider, strict bool) {
	folder := "schemas"
	if strict {
		folder = "schemas_strict"
	}
	if why, ok := p.Lacks[folder]; ok {
		t.Skip(why)
	}
	for _, def := range awkward(t) {
		t.Run(def.Name, func(t *testing.T) {
			srv := serve(t, atOnce, must(t, p, "text", false))
			m := adapter{p.New(t, Options{BaseURL: srv.URL, Strict: strict, Client: client(t)})}
			checker, ok := m.Model.(llm.ToolChecker)
			if !ok {
				t.Fatal("the adapter is no llm.ToolChecker")
			}
			path := filepath.Join(filepath.Dir(p.Replies), folder, def.Name+".json")
			req := llm.Request{Messages: []llm.Message{llm.UserText("a")},
				Tools: []llm.ToolDef{def}}
			refused := checker.CheckTools(req.Tools)
			_, _, err := m.collect(t, req)
			if (refused == nil) != (err == nil) {
				t.Fatalf("CheckTools says %v, and Generate %v", refused, err)
			}
			if refused != nil {
				var e *llm.Error
				if !errors.As(refused, &e) || e.Kind != llm.ErrInvalid || e.Provider != p.Name ||
					!strings.Contains(refused.Error(), def.Name) {
					t.Errorf("%v, want an error of kind %s that names the provider and the tool",
						refused, llm.ErrInvalid)
				}
				said, _ := json.Marshal(map[string]string{"refused": refused.Error()})
				golden(t, path, said)
				return
			}
			listed := p.Lists(srv.asked()[0])
			if s := string(listed); !strings.Contains(s, `"properties"`) ||
				strings.Contains(s, `"$schema"`) || strings.Contains(s, `"$id"`) {
				t.Errorf("the schema has no properties, or names itself: %s", s)
			}
			golden(t, path, listed)
		})
	}
}

type (
	point struct {
		X int `json:"x"`
		Y int `json:"y"`
	}
	line struct {
		From point     `json:"from"`
		To   point     `json:"to" jsonschema:"description=Where it ends"`
		At   time.Time `json:"at"`
		Till time.Time `json:"till"`
	}
	tree struct {
		Name string `json:"name"`
		Kids []tree `json:"kids,omitempty"`
	}
	anything struct {
		Any any             `json:"any"`
		Raw json.RawMessage `json:"raw"`
		Map map[string]any  `json:"map"`
	}
	optional struct {
		Must    string  `json:"must"`
		Pointer *string `json:"pointer"`
		Omitted string  `json:"omitted,omitempty"`
		Zero    int     `json:"zero,omitzero"`
		Inner   *point  `json:"inner,omitempty"`
		List    []int   `json:"list,omitempty"`
	}
	bounded struct {
		Version string   `json:"version" jsonschema:"description=As tagged,pattern=^v[0-9]"`
		Count   uint8    `json:"count" jsonschema:"minimum=1,maximum=9"`
		Big     uint64   `json:"big"`
		Kind    string   `json:"kind" jsonschema:"enum=a,enum=b"`
		Tags    []string `json:"tags" jsonschema:"minItems=1,uniqueItems=true"`
	}
	maps struct {
		ByName map[string]int `json:"by_name"`
		ByID   map[int]string `json:"by_id"`
	}
)

// awkward are tools with schemas that providers stumble over.
func awkward(t testing.TB) []llm.ToolDef {
	t.Helper()
	all := []tool.Tool{
		typed[struct{}](t, "no_arguments"), typed[line](t, "types_used_twice"), typed[tree](t,
			"holds_itself"), typed[anything](t, "any_value"),
		typed[optional](t, "optional_fields"), typed[bounded](t, "bounded"), typed[maps](t, "maps"),
		given("by_hand", `{"$schema":"https://json-schema.org/draft/2020-12/schema","$id":"https://example.com/s","title":"By hand","type":"object","properties":{
			"either":{"oneOf":[{"type":"string","format":"email"},{"type":"integer"}]},
			"nullable":{"type":["string","null"],"format":"date-time"},
			"fixed":{"const":"x"},
			"anything":true,
			"ref":{"$ref":"#/$defs/leaf"},
			"all":{"allOf":[{"type":"object","properties":{"a":{"type":"string"}}},{"type":"object","properties":{"b":{"type":"string"}}}]},
			"uri":{"type":"string","format":"uri","default":"https://example.com","examples":["a"]}
		},"required":["either"],"$defs":{"leaf":{"type":"object","properties":{"id":{"type":"string","format":"uuid"}},"required":["id"]}}}`),
		given("given_nothing", `{}`), handle(t, false), handle(t, true),
		byHand{handles.AwaitTool, handles.AwaitSpec().Input},
	}
	r, err := tool.NewRegistry(all, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r.Defs()
}

func typed[In any](t testing.TB, name string) tool.Tool {
	t.Helper()
	made, err := tool.Func(tool.Spec{Name: name, Description: "An awkward tool."},
		func(context.Context, In) (tool.Result[string], error) { return tool.Done("done"), nil })
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// given returns a tool with a schema that was written by hand.
func given(name, schema string) tool.Tool { return byHand{name, json.RawMessage(schema)} }

// handle returns a tool whose calls may be actions on handles. Exact, its
// schema has oneOf at the root.
func handle(t testing.TB, exact bool) tool.Tool {
	t.Helper()
	name := "handle"
	if exact {
		name = "handle_exact"
	}
	form, err := handles.NewForm(handles.Config{Tool: name, Takes: true, Asks: true, Exact: exact,
		Input: typed[optional](t, name).Spec().Input})
	if err != nil {
		t.Fatal(err)
	}
	return byHand{name, form.Schema()}
}

type byHand struct {
	name  string
	input json.RawMessage
}

func (b byHand) Spec() tool.Spec {
	return tool.Spec{Name: b.name, Description: "An awkward tool.", Input: b.input}
}

func (byHand) Execute(context.Context, tool.Call) (tool.Execution, error) {
	return tool.Execution{}, nil
}
