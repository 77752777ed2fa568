package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/internal/testlength"
	"github.com/fermata-ai/fermata/tool/misfit"
)

// allocated returns how many bytes f allocates, freed or not.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestARefusalCostsNoMoreThanABound(t *testing.T) {
	size := testlength.Part(4, 1<<20)
	fill := func(before, each, after string) string {
		return before + strings.Repeat(each, (size-len(before)-len(after))/len(each)) + after
	}
	var members strings.Builder
	for i := 0; members.Len() < size; i++ {
		fmt.Fprintf(&members, `"k%d":1,`, i)
	}
	object := "{" + members.String() + `"k":1}`
	nested := fill(`[`, strings.Repeat(`[1,1,1,1,1,1,1,1],`, 8), `[]]`)
	long := strings.Repeat("k", size-1000)
	deep := strings.Repeat(`{"`+strings.Repeat("k", size/1050)+`":`, 990) + "1" +
		strings.Repeat("}", 990)
	tree := `{"type":"object","properties":{"a":{"$ref":"#"},"b":{"$ref":"#"},` +
		`"c":{"type":"string"}},"additionalProperties":false}`
	for name, c := range map[string]struct{ schema, value string }{
		"items": {`{"type":"array","items":{"type":"string"}}`,
			fill("[1", ",1", "]")},
		"items of items":       {`{"items":{"items":{"type":"string"}}}`, nested},
		"items that are equal": {`{"items":{"enum":["a"]}}`, fill("[1", ",1", "]")},
		"members":              {`{"additionalProperties":{"type":"string"}}`, object},
		"unknown members": {`{"properties":{"k":{}},"additionalProperties":false}`,
			object},
		"keys":               {`{"propertyNames":{"pattern":"^x"}}`, object},
		"members by pattern": {`{"patternProperties":{"^k":{"type":"string"}}}`, object},
		"contains":           {`{"contains":{"type":"string"}}`, fill("[1", ",1", "]")},
		"alternatives": {
			`{"anyOf":[{"items":{"type":"string"}},{"items":{"type":"null"}}]}`,
			fill("[1", ",1", "]")},
		"items below a long name": {`{"additionalProperties":{"items":{"type":"string"}}}`,
			`{"` + long + `":[` + strings.Repeat("1,", 400) + `1]}`},
		"a long unknown name": {`{"additionalProperties":false}`, `{"` + long + `":1}`},
		"a long key":          {`{"propertyNames":{"maxLength":1}}`, `{"` + long + `":1}`},
		"a place far inside": {`{"type":"object","additionalProperties":{"$ref":"#"}}`,
			deep},
		"no JSON below a long name": {`{}`, `{"` + long + `":nope}`},
		"no JSON far inside":        {`{}`, strings.Replace(deep, ":1}", ":nope}", 1)},
		"a long name twice": {`{}`,
			`{"` + long[:size/2] + `":1,"` + long[:size/2] + `":1}`},
		"a list of trees": {`{"items":` + strings.ReplaceAll(tree, `"#"`, `"#/items"`) + `}`,
			fill("[", `{"a":{"c":1},"b":{"c":1}},`, "{}]")},
	} {
		t.Run(name, func(t *testing.T) {
			s := schema(t, c.schema)
			var err error
			cost := allocated(func() { err = s.Validate(json.RawMessage(c.value)) })
			var v *misfit.Error
			if !errors.As(err, &v) {
				t.Fatal("it was taken")
			}
			if len(err.Error()) > 8<<10 || len(v.Faults) > maxFaults {
				t.Errorf("the error has %d faults and %d bytes", len(v.Faults), len(err.Error()))
			}
			limit := uint64(80)
			if name == "contains" || name == "keys" { // each is looked at, and nothing of it kept
				limit = 300
			}
			if cost > limit*uint64(size) {
				t.Errorf("the refusal of %d bytes allocates %d", len(c.value), cost)
			}
		})
	}
}

// overlapping alternatives are each tried for each value inside of them.
const overlapping = `{"anyOf":[
	{"type":"array","items":{"$ref":"#"},"maxItems":1},
	{"type":"array","items":{"$ref":"#"},"minItems":1},
	{"type":"string"}]}`

func TestOverlappingAlternativesAreABoundedAmountOfWork(t *testing.T) {
	s := schema(t, overlapping)
	deep := func(n int) string { return strings.Repeat("[", n) + "1" + strings.Repeat("]", n) }
	for _, n := range []int{21, 200} {
		err := s.Validate(json.RawMessage(deep(n)))
		if err == nil || !strings.Contains(err.Error(), "too many steps") {
			t.Errorf("at depth %d: %v", n, err)
		}
	}
	if err := s.Validate(json.RawMessage(strings.Replace(deep(200), "1", `"x"`, 1))); err != nil {
		t.Errorf("what fits is refused: %v", err)
	}
	if err := s.Validate(json.RawMessage(deep(3))); err == nil ||
		strings.Contains(err.Error(), "steps") {
		t.Errorf("a small one is not explained: %v", err)
	}
	// The work of one validation is not taken off another's.
	if err := s.Validate(json.RawMessage(`["x"]`)); err != nil {
		t.Error(err)
	}
}

func TestLargeValuesThatFitAreTaken(t *testing.T) {
	ones := "[1" + strings.Repeat(",1", 50_000) + "]"
	for _, s := range []string{
		// The first alternative fails by each item.
		`{"anyOf":[{"items":{"type":"string"}},{"items":{"type":"integer"}}]}`,
		`{"items":{"type":"integer","multipleOf":1}}`,
		`{"items":{"allOf":[{"minimum":1},{"maximum":1.5}]}}`,
		`{"contains":{"const":1}}`,
	} {
		if err := schema(t, s).Validate(json.RawMessage(ones)); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
}

func TestOneSchemaValidatesForManyAtOnce(t *testing.T) {
	s := schema(t, overlapping)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			value, good := `[["x"]]`, true
			if i%2 == 0 {
				value, good = strings.Repeat("[", 40)+"1"+strings.Repeat("]", 40), false
			}
			for range 4 {
				if err := s.Validate(json.RawMessage(value)); (err == nil) != good {
					t.Errorf("%s: %v", value, err)
				}
			}
		})
	}
	wg.Wait()
}

// inTheLibrary compiles a schema without any part of ours.
func inTheLibrary(text []byte) (*jsonschema.Schema, error) {
	doc, err := parse(text)
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	c.AssertFormat()
	c.AssertContent()
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, err
	}
	return c.Compile(schemaURL)
}

func FuzzPartsAgreeWithTheLibrary(f *testing.F) {
	all := append(schemas,
		overlapping,
		`{"patternProperties":{"^a":{"type":"null"},"b$":{"minimum":2}},"properties":{"ab":{}},`+
			`"additionalProperties":false}`,
		`{"prefixItems":[{"type":"null"},{"type":"string"}],"items":false}`,
		`{"prefixItems":[{"type":"null"}],"items":{"type":"string"}}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"null"}],`+
			`"additionalItems":false}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"null"}],`+
			`"additionalItems":{"type":"string"}}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","items":{"type":"null"},`+
			`"contains":{}}`,
		`{"contains":{"type":"string"},"minContains":2,"maxContains":3}`,
		`{"contains":{"type":"null"},"minContains":0}`,
		`{"oneOf":[{"type":"integer"},{"minimum":1},{"const":"a"}]}`,
		`{"allOf":[{"minimum":1},{"required":["a"]},{"not":{"type":"null"}}]}`,
		`{"anyOf":[{"properties":{"a":{"type":"null"}}},{"properties":{"b":{"type":"string"}}}],`+
			`"unevaluatedProperties":false}`,
		`{"anyOf":[{"prefixItems":[{}]},{"contains":{"type":"null"}}],`+
			`"unevaluatedItems":{"type":"string"}}`,
		`{"propertyNames":{"pattern":"^[a-c]+$","maxLength":2}}`,
		`{"if":{"required":["a"]},"then":{"properties":{"a":{"type":"null"}}},`+
			`"else":{"maxProperties":1}}`,
		`{"contentMediaType":"application/json","contentSchema":{"type":"object"}}`,
		`{"contentMediaType":"application/json","contentEncoding":"base64",`+
			`"contentSchema":{"items":{"type":"null"}}}`,
		`{"dependentSchemas":{"a":{"required":["b"]}},"patternProperties":{"c":false}}`,
	)
	var ours []*Schema
	var theirs []*jsonschema.Schema
	for _, s := range all {
		if c, err := Compile(json.RawMessage(s)); err == nil {
			their, err := inTheLibrary([]byte(s))
			if err != nil {
				f.Fatal(err)
			}
			ours, theirs = append(ours, c), append(theirs, their)
		}
	}
	for _, s := range texts {
		f.Add([]byte(s))
	}
	for _, s := range []string{
		`{"a":null,"ab":1,"b":1,"cb":3}`, `{"x":1}`, `[null]`, `[null,"a"]`, `[null,"a",1]`,
		`["a","b","c","d"]`, `{"a":1,"b":2,"c":3}`, `1`, `0`, `"a"`,
		`"{}"`, `"[]"`, `"e30="`, `"W251bGxd"`, `"W10="`, `"WzFd"`, `[["x"],[1]]`, `[[[1]]]`,
		`[null,null]`, `{"a":{"b":[]}}`, `{"abc":1}`, `{"b":"x"}`, `{"b":1}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 200 {
			return // theirs has no bound
		}
		d, err := strictjson.Parse(text, strictjson.Strict(false))
		if err != nil {
			return
		}
		tree := strictjson.Plain(d.Root)
		for i, s := range ours {
			our, their := s.work.run(s.full, tree, len(text)), theirs[i].Validate(tree)
			if (our == nil) != (their == nil) {
				t.Errorf("schema %d on %s: %v, and in the library %v", i, text, our, their)
			}
		}
	})
}
