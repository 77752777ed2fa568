package llm

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/fermata-ai/fermata/internal/modeltext"
	"github.com/fermata-ai/fermata/internal/property"
	"github.com/fermata-ai/fermata/internal/strictjson"
)

func TestArguments(t *testing.T) {
	const fenced = "{\"md\":\"```json\\n{}\\n```\"}"
	for _, c := range []struct{ name, in, want string }{
		{"empty", "", "{}"},
		{"white space", " \t\r\n", "{}"},
		{"white space that JSON doesn't know", "\v\u00A0", "{}"},
		{"such white space around", "\u00A0{}\v", "{}"},
		{"null", "null", "{}"},
		{"null in space", " null\n", "{}"},
		{"empty string", `""`, "{}"},
		{"string of white space", `" \n"`, "{}"},
		{"string of null", `"null"`, "{}"},
		{"string of an empty object", `"{}"`, "{}"},
		{"object", `{"p":1}`, `{"p":1}`},
		{"bytes are kept", "{ \"p\" : 1.0 ,\n\"q\":9007199254740993, \"h\":\"<&>\\u003c\\/\" }", "{ \"p\" : 1.0 ,\n\"q\":9007199254740993, \"h\":\"<&>\\u003c\\/\" }"},
		{"space around", "\n {\"p\":1}\t", `{"p":1}`},
		{"array", `[1]`, `[1]`}, // a value, if no object: the schema's to refuse
		{"number", `7`, `7`},
		{"byte order mark", "\uFEFF{}", "{}"},
		{"byte order mark alone", " \uFEFF ", "{}"},
		{"byte order mark in space", " \uFEFF {\"p\":1}", `{"p":1}`},
		{"fence", "```json\n{\"p\":1}\n```", `{"p":1}`},
		{"fence in space", "\n```json\n{\"p\":1}\n```\n", `{"p":1}`},
		{"fence without a language", "```\n{\"p\":1}\n```", `{"p":1}`},
		{"fence with Windows lines", "```JSON\r\n{\"p\":1}\r\n```", `{"p":1}`},
		{"fence on one line", "```json {\"p\":1}```", `{"p":1}`},
		{"fence on one line without a language", "```{\"p\":1}```", `{"p":1}`},
		{"fence on the value's line", "```{\"p\":1}\n```", `{"p":1}`},
		{"fence with a strange language", "```c++-x_2\n{\"p\":1}\n```", `{"p":1}`},
		{"longer fence", "````\n{\"p\":\"```\"}\n````", `{"p":"` + "```" + `"}`},
		{"fence of null", "```json\nnull\n```", "{}"},
		{"byte order mark and fence", "\uFEFF```json\n{\"p\":1}\n```", `{"p":1}`},
		{"fence in a string", fenced, fenced},
		{"fence in a fenced string", "```json\n" + fenced + "\n```", fenced},
		{"a string that is a fence", "\"```json\\n{}\\n```\"", "\"```json\\n{}\\n```\""},
		// Not an object: nothing is guessed.
		{"a string that is an object", `"{\"p\":1}"`, `"{\"p\":1}"`},
		{"lone surrogate", `{"p":"\ud800"}`, `{"p":"\ufffd"}`},
		{"escaped backslash", `{"p":"\\ud800"}`, `{"p":"\\ud800"}`},
		{"invalid UTF-8", "{\"p\":\"\xff\"}", "{\"p\":\"\uFFFD\"}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Arguments(c.in)
			if err != nil || string(got) != c.want {
				t.Errorf("%s, %v; want %s", got, err, c.want)
			}
			if raw, err := Arguments(json.RawMessage(c.in)); err != nil || string(raw) != c.want {
				t.Errorf("as bytes: %s, %v", raw, err)
			}
			argumentsHold(t, c.in)
		})
	}
	if got, err := Arguments(json.RawMessage(nil)); err != nil || string(got) != "{}" {
		t.Errorf("absent: %s, %v", got, err)
	}
}

func TestFenceMayNameALanguage(t *testing.T) {
	for _, c := range "azAZ09+-_" {
		in := "```x" + string(c) + "\n{\"p\":1}\n```"
		if got, err := Arguments(in); err != nil || string(got) != `{"p":1}` {
			t.Errorf("%q: %s, %v", in, got, err)
		}
	}
	for _, c := range "@[{`/:.," {
		in := "```x" + string(c) + "\n{\"p\":1}\n```"
		if got, err := Arguments(in); err == nil {
			t.Errorf("%q: %s", in, got)
		}
	}
}

func TestBrokenArgumentsAreToldNotGuessed(t *testing.T) {
	long := strings.Repeat("é", 100)
	for _, c := range []struct{ name, in, want string }{
		{"truncated", `{"p":1`, `at byte 6, ',' or '}' is expected where the text ends: {"p":1<<HERE>>`},
		{"truncated at once", `{`, `at byte 1, a key in double quotes is expected where the text ends: {<<HERE>>`},
		{"truncated name", `{"p`, `at byte 1, a string begins here and does not end: {<<HERE>>"p`},
		{"truncated before the colon", `{"p"`, `at byte 4, ':' is expected after the key "p" where the text ends: {"p"<<HERE>>`},
		{"truncated after an escape", `{"p":"\n`, `at byte 5, a string begins here and does not end: {"p":<<HERE>>"\n`},
		{"truncated escape", `{"p":"\u00`, `at byte 6, a string holds an escape that is cut off: {"p":"<<HERE>>\u00`},
		{"truncated word", `{"p":tr`, `at byte 5, a JSON value is expected where 't' stands: {"p":<<HERE>>tr`},
		{"truncated number", `{"p":1.`, `at byte 7, a digit is expected where the text ends: {"p":1.<<HERE>>`},
		{"truncated array", `{"p":[1,`, `at byte 8, a JSON value is expected where the text ends: {"p":[1,<<HERE>>`},
		{"trailing text", `{"p":1} done.`, `at byte 8, there is text after the end of the JSON value: "done.": {"p":1} <<HERE>>done.`},
		{"leading text", `Here: {"p":1}`, `at byte 0, a JSON value is expected where 'H' stands: <<HERE>>Here: {"p":1}`},
		{"second value", `{"p":1}{"p":2}`, `at byte 7, there is text after the end of the JSON value: "{\"p\":2}": {"p":1}<<HERE>>{"p":2}`},
		{"two lines", "{\"p\":1}\n{\"p\":2}", "at byte 8, there is text after the end of the JSON value: \"{\\\"p\\\":2}\": {\"p\":1}\n<<HERE>>{\"p\":2}"},
		{"single quotes", `{'p':1}`, `at byte 1, a key in double quotes is expected where '\'' stands: {<<HERE>>'p':1}`},
		{"single-quoted value", `{"p":'x'}`, `at byte 5, a JSON value is expected where '\'' stands: {"p":<<HERE>>'x'}`},
		{"no quotes", `{p:1}`, `at byte 1, a key in double quotes is expected where 'p' stands: {<<HERE>>p:1}`},
		{"NaN", `NaN`, `at byte 0, a JSON value is expected where 'N' stands: <<HERE>>NaN`},
		{"NaN inside", `{"p":NaN}`, `at byte 5, a JSON value is expected where 'N' stands: {"p":<<HERE>>NaN}`},
		{"infinity", `{"p":-Infinity}`, `at byte 6, a digit is expected where 'I' stands: {"p":-<<HERE>>Infinity}`},
		{"Python", `{"p":None}`, `at byte 5, a JSON value is expected where 'N' stands: {"p":<<HERE>>None}`},
		{"a long word", `AZaz_1`, `at byte 0, a JSON value is expected where 'A' stands: <<HERE>>AZaz_1`},
		{"leading zero", `{"p":01}`, `at byte 6, ',' or '}' is expected where '1' stands: {"p":0<<HERE>>1}`},
		{"plus sign", `{"p":+1}`, `at byte 5, a JSON value is expected where '+' stands: {"p":<<HERE>>+1}`},
		{"bare minus", `{"p":-}`, `at byte 6, a digit is expected where '}' stands: {"p":-<<HERE>>}`},
		{"trailing comma", `{"p":1,}`, `at byte 7, a key in double quotes is expected where '}' stands: {"p":1,<<HERE>>}`},
		{"trailing comma in an array", `{"p":[1, ]}`, `at byte 9, a JSON value is expected where ']' stands: {"p":[1, <<HERE>>]}`},
		{"missing comma", `{"p":1 "q":2}`, `at byte 7, ',' or '}' is expected where '"' stands: {"p":1 <<HERE>>"q":2}`},
		{"comment", `{"p":1 // one` + "\n}", "at byte 7, ',' or '}' is expected where '/' stands: {\"p\":1 <<HERE>>// one\n}"},
		{"line break in a string", "{\"p\":\"a\nb\"}", "at byte 7, a string holds the control character '\\n' unescaped: {\"p\":\"a<<HERE>>\nb\"}"},
		{"bad escape", `{"p":"\x"}`, `at byte 6, a string holds the unknown escape \x: {"p":"<<HERE>>\x"}`},
		{"bad hex", `{"p":"\u00zz"}`, `at byte 6, a string holds an escape that is cut off: {"p":"<<HERE>>\u00zz"}`},
		{"string", `"x"`, `at byte 0, a JSON value is expected where 'x' stands: <<HERE>>x`},
		{"string in a fence", "```\n\"x\"\n```", `at byte 0, a JSON value is expected where 'x' stands: <<HERE>>x`},
		{"fence and more", "```json\n{}\n``` done", "at byte 14, text follows the markdown fence: ```json\n{}\n```<<HERE>> done"},
		{"text and fence", "See ```{}```", "at byte 0, a JSON value is expected where 'S' stands: <<HERE>>See ```{}```"},
		{"two fences", "```\n{}\n```\n```\n{}\n```", "at byte 7, there is text after the end of the JSON value: \"```\\n```\\n{}\": ```\n{}\n<<HERE>>```\n```\n{}\n```"},
		{"open fence", "```json\n{\"p\":1}\n", "at byte 15, the text ends inside the markdown fence that begins at byte 0: ```json\n{\"p\":1}<<HERE>>\n"},
		{"truncated in a fence", "```json\n{\"p\":1\n```", "at byte 14, ',' or '}' is expected where the text ends: ```json\n{\"p\":1<<HERE>>\n```"},
		{"empty fence", "```json\n```", "at byte 8, the markdown fence is empty: ```json\n<<HERE>>```"},
		{"empty fence on one line", "```json```", "at byte 7, the markdown fence is empty: ```json<<HERE>>```"},
		{"bare fence", "```", "at byte 3, the text ends inside the markdown fence that begins at byte 0: ```<<HERE>>"},
		{"excerpt", `{"p":"` + long + `" x` + long, `at byte 208, ',' or '}' is expected where 'x' stands: ...` + long[162:] + `" <<HERE>>x` + long[:38] + "..."},
		{"excerpt whose cuts fall within characters", `{"p":"` + long + `"x` + long, "at byte 207, ',' or '}' is expected where 'x' stands: ..." + long[162:] + `"<<HERE>>x` + long[:38] + "..."},
		{"invalid UTF-8", "{\xff}", "at byte 1, a key in double quotes is expected where '\uFFFD' stands: {<<HERE>>\uFFFD}"},
		{"too deep", strings.Repeat("[", 9950) + strings.Repeat("]", 9950), "at byte 9900, it is nested too deep: ..." + strings.Repeat("[", 40) + "<<HERE>>" + strings.Repeat("[", 40) + "..."},
		{"deep, and cut off", strings.Repeat("[", 10000), "at byte 10000, a JSON value is expected where the text ends: ..." + strings.Repeat("[", 40) + "<<HERE>>"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Arguments(c.in)
			if want := "arguments must be one JSON object: " + c.want; err == nil || err.Error() != want {
				t.Errorf("%v\nwant\n%s", err, want)
			}
			argumentsHold(t, c.in)
		})
	}
}

// argumentsHold is what Arguments promises of any text.
func argumentsHold(t interface{ Fatalf(string, ...any) }, in string) {
	got, err := Arguments(in)
	if !json.Valid(got) || !utf8.Valid(got) || string(modeltext.CleanJSON(got)) != string(got) {
		t.Fatalf("%q: %q can't be stored and sent", in, got)
	}
	if err != nil && got[0] != '"' {
		t.Fatalf("%q: %s goes with the error %v: a tool might run with it", in, got, err)
	}
	again, err2 := Arguments(got)
	if string(again) != string(got) || (err == nil) != (err2 == nil) || err != nil && err.Error() != err2.Error() {
		t.Fatalf("%q: judged again, %s, %v became %s, %v", in, got, err, again, err2)
	}
	// The text is kept; or the value is, which is a string itself, perhaps out of a fence.
	if err != nil && strictjson.Unquote(got) != modeltext.CleanString(in) && !strings.Contains(string(modeltext.CleanJSON([]byte(in))), string(got)) {
		text := strictjson.Unquote(got)
		t.Fatalf("%q: the text is not kept: %q", in, text)
	}
}

func TestValidValuesAreUntouchedArguments(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		v := anyJSON().Draw(t, "value")
		argumentsHold(t, string(v))
		if v[0] != '{' && v[0] != '[' {
			return
		}
		for _, in := range []string{string(v), "```json\n" + string(v) + "\n```", "\uFEFF " + string(v) + "\n"} {
			if got, err := Arguments(in); err != nil || string(got) != string(v) {
				t.Fatalf("%q became %q, %v", in, got, err)
			}
		}
		if cut := v[:rapid.IntRange(1, len(v)-1).Draw(t, "cut")]; json.Valid(cut) {
			t.Fatalf("%q is complete?", cut)
		} else if got, err := Arguments(cut); err == nil {
			t.Fatalf("%q, truncated, became %q", cut, got)
		}
	})
}
