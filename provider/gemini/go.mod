module github.com/fermata-ai/fermata/provider/gemini

go 1.25.0

replace github.com/fermata-ai/fermata => ../..

require (
	github.com/fermata-ai/fermata v0.0.0
	google.golang.org/genai v1.77.0
)
