package llm

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
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
		{"a string that is an object", `"{\"p\":1}"`, `"{\"p\":1}"`}, // not an object: nobody guesses
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
		{"truncated", `{"p":1`, `at byte 6, the text ends where a comma or } is expected: {"p":1<<HERE>>`},
		{"truncated at once", `{`, `at byte 1, the text ends where a value or } is expected: {<<HERE>>`},
		{"truncated name", `{"p`, `at byte 3, the text ends inside the string that begins at byte 1: {"p<<HERE>>`},
		{"truncated before the colon", `{"p"`, `at byte 4, the text ends where a colon after "p" is expected: {"p"<<HERE>>`},
		{"truncated after an escape", `{"p":"\n`, `at byte 8, the text ends inside the string that begins at byte 5: {"p":"\n<<HERE>>`},
		{"truncated escape", `{"p":"\u00`, `at byte 10, the text ends inside the string that begins at byte 5: {"p":"\u00<<HERE>>`},
		{"truncated word", `{"p":tr`, `at byte 5, the text ends with tr, which is no JSON value: {"p":<<HERE>>tr`},
		{"truncated number", `{"p":1.`, `at byte 7, the text ends inside the number that begins at byte 5: {"p":1.<<HERE>>`},
		{"truncated array", `{"p":[1,`, `at byte 8, the text ends where a value is expected: {"p":[1,<<HERE>>`},
		{"trailing text", `{"p":1} done.`, `at byte 8, text follows the JSON value: {"p":1} <<HERE>>done.`},
		{"leading text", `Here: {"p":1}`, `at byte 0, Here is no JSON value: <<HERE>>Here: {"p":1}`},
		{"second value", `{"p":1}{"p":2}`, `at byte 7, a second JSON value follows the first: {"p":1}<<HERE>>{"p":2}`},
		{"two lines", "{\"p\":1}\n{\"p\":2}", "at byte 8, a second JSON value follows the first: {\"p\":1}\n<<HERE>>{\"p\":2}"},
		{"single quotes", `{'p':1}`, `at byte 1, a name is in single quotes, where JSON wants double quotes: {<<HERE>>'p':1}`},
		{"single-quoted value", `{"p":'x'}`, `at byte 5, a string is in single quotes, where JSON wants double quotes: {"p":<<HERE>>'x'}`},
		{"no quotes", `{p:1}`, `at byte 1, the name p is not in double quotes: {<<HERE>>p:1}`},
		{"NaN", `NaN`, `at byte 0, the text ends with NaN, which is no JSON value: <<HERE>>NaN`},
		{"NaN inside", `{"p":NaN}`, `at byte 5, NaN is no JSON value: {"p":<<HERE>>NaN}`},
		{"infinity", `{"p":-Infinity}`, `at byte 5, -Infinity is no JSON value: {"p":<<HERE>>-Infinity}`},
		{"Python", `{"p":None}`, `at byte 5, None is no JSON value: {"p":<<HERE>>None}`},
		{"a long word", `AZaz_1`, `at byte 0, AZaz_ is no JSON value: <<HERE>>AZaz_1`},
		{"leading zero", `{"p":01}`, `at byte 6, '1' stands where a comma or } is expected: {"p":0<<HERE>>1}`},
		{"plus sign", `{"p":+1}`, `at byte 5, '+' stands where a value is expected: {"p":<<HERE>>+1}`},
		{"bare minus", `{"p":-}`, `at byte 6, '}' stands where a digit is expected: {"p":-<<HERE>>}`},
		{"trailing comma", `{"p":1,}`, `at byte 7, a comma stands before the closing }: {"p":1,<<HERE>>}`},
		{"trailing comma in an array", `{"p":[1, ]}`, `at byte 9, a comma stands before the closing ]: {"p":[1, <<HERE>>]}`},
		{"missing comma", `{"p":1 "q":2}`, `at byte 7, '"' stands where a comma or } is expected: {"p":1 <<HERE>>"q":2}`},
		{"comment", `{"p":1 // one` + "\n}", "at byte 7, '/' stands where a comma or } is expected: {\"p\":1 <<HERE>>// one\n}"},
		{"line break in a string", "{\"p\":\"a\nb\"}", "at byte 7, a string holds the control character '\\n', which must be escaped: {\"p\":\"a<<HERE>>\nb\"}"},
		{"bad escape", `{"p":"\x"}`, `at byte 6, a string holds a backslash that begins no JSON escape: {"p":"<<HERE>>\x"}`},
		{"bad hex", `{"p":"\u00zz"}`, `at byte 6, a string holds a backslash that begins no JSON escape: {"p":"<<HERE>>\u00zz"}`},
		{"string", `"x"`, `at byte 0, the text ends with x, which is no JSON value: <<HERE>>x`},
		{"string in a fence", "```\n\"x\"\n```", `at byte 0, the text ends with x, which is no JSON value: <<HERE>>x`},
		{"fence and more", "```json\n{}\n``` done", "at byte 14, text follows the markdown fence: ```json\n{}\n```<<HERE>> done"},
		{"text and fence", "See ```{}```", "at byte 0, See is no JSON value: <<HERE>>See ```{}```"},
		{"two fences", "```\n{}\n```\n```\n{}\n```", "at byte 7, text follows the JSON value: ```\n{}\n<<HERE>>```\n```\n{}\n```"},
		{"open fence", "```json\n{\"p\":1}\n", "at byte 15, the text ends inside the markdown fence that begins at byte 0: ```json\n{\"p\":1}<<HERE>>\n"},
		{"truncated in a fence", "```json\n{\"p\":1\n```", "at byte 14, the text ends where a comma or } is expected: ```json\n{\"p\":1<<HERE>>\n```"},
		{"empty fence", "```json\n```", "at byte 8, the markdown fence is empty: ```json\n<<HERE>>```"},
		{"empty fence on one line", "```json```", "at byte 7, the markdown fence is empty: ```json<<HERE>>```"},
		{"bare fence", "```", "at byte 3, the text ends inside the markdown fence that begins at byte 0: ```<<HERE>>"},
		{"excerpt", `{"p":"` + long + `" x` + long, `at byte 208, 'x' stands where a comma or } is expected: ...` + long[162:] + `" <<HERE>>x` + long[:40] + "..."},
		{"excerpt whose cuts fall within characters", `{"p":"` + long + `"x` + long, "at byte 207, 'x' stands where a comma or } is expected: ..." + long[160:] + `"<<HERE>>x` + long[:40] + "..."},
		{"invalid UTF-8", "{\xff}", "at byte 1, '\uFFFD' stands where a name in double quotes is expected: {<<HERE>>\uFFFD}"},
		{"deep", strings.Repeat("[", 10000), "at byte 9900, values are nested more than 10000 deep: ..." + strings.Repeat("[", 40) + "<<HERE>>" + strings.Repeat("[", 40) + "..."},
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
	if !json.Valid(got) || !utf8.Valid(got) || string(CleanJSON(got)) != string(got) {
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
	if err != nil && unquote(got) != CleanString(in) && !strings.Contains(string(CleanJSON([]byte(in))), string(got)) {
		text := unquote(got)
		t.Fatalf("%q: the text is not kept: %q", in, text)
	}
}

func TestValidValuesAreUntouchedArguments(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
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
