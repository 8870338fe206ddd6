# Points Claude Code at qwen3-coder-a40: qwen, 262,144 tokens.
#   . .\connect.ps1 POD_ID           sets the variables in this session
#   . .\connect.ps1 -Undo                puts back what was there before
#   .\connect.ps1 POD_ID -Launch [ARGUMENTS]   sets them and starts claude
# The endpoint's key comes from $env:PODWRIGHT_API_KEY, or is asked for. It is written nowhere.
param(
    [Parameter(Position = 0)][string]$Address = '',
    [switch]$Undo,
    [switch]$Launch,
    [Parameter(ValueFromRemainingArguments = $true)][string[]]$ClaudeArguments = @()
)

$podwrightNames = @('ANTHROPIC_API_KEY', 'ANTHROPIC_BASE_URL', 'ANTHROPIC_AUTH_TOKEN', 'ANTHROPIC_MODEL', 'ANTHROPIC_DEFAULT_OPUS_MODEL', 'ANTHROPIC_DEFAULT_SONNET_MODEL', 'ANTHROPIC_DEFAULT_HAIKU_MODEL', 'ANTHROPIC_SMALL_FAST_MODEL', 'CLAUDE_CODE_DISABLE_UNKNOWN_MODEL_WINDOW_ENFORCEMENT', 'CLAUDE_CODE_MAX_CONTEXT_TOKENS', 'CLAUDE_CODE_AUTO_COMPACT_WINDOW')
if ($Undo) {
    if ($global:PodwrightBefore) {
        foreach ($name in $podwrightNames) { [Environment]::SetEnvironmentVariable($name, $global:PodwrightBefore[$name]) }
        $global:PodwrightBefore = $null
    }
    return
}

$url = $Address.TrimEnd('/')
if ($url -notmatch '^https?://.') {
    if ($url -cnotmatch '^[A-Za-z0-9]+$') { throw 'connect.ps1: give the pod id, or the address of the endpoint' }
    $url = 'https://' + $url + '-8080.proxy.runpod.net'
}
$key = $env:PODWRIGHT_API_KEY
if (-not $key) {
    $secure = Read-Host -Prompt 'Key of the endpoint' -AsSecureString
    $key = [System.Net.NetworkCredential]::new('', $secure).Password
}
if (-not $key) { throw 'connect.ps1: no key; set PODWRIGHT_API_KEY' }

if (-not $global:PodwrightBefore) {
    $global:PodwrightBefore = @{}
    foreach ($name in $podwrightNames) { $global:PodwrightBefore[$name] = [Environment]::GetEnvironmentVariable($name) }
}
Remove-Item Env:ANTHROPIC_API_KEY -ErrorAction SilentlyContinue
$env:ANTHROPIC_BASE_URL = $url
$env:ANTHROPIC_AUTH_TOKEN = $key
$env:ANTHROPIC_MODEL = 'qwen'
$env:ANTHROPIC_DEFAULT_OPUS_MODEL = 'qwen'
$env:ANTHROPIC_DEFAULT_SONNET_MODEL = 'qwen'
$env:ANTHROPIC_DEFAULT_HAIKU_MODEL = 'qwen'
$env:ANTHROPIC_SMALL_FAST_MODEL = 'qwen'
$env:CLAUDE_CODE_DISABLE_UNKNOWN_MODEL_WINDOW_ENFORCEMENT = '1'
$env:CLAUDE_CODE_MAX_CONTEXT_TOKENS = '262144'
$env:CLAUDE_CODE_AUTO_COMPACT_WINDOW = '262144'
Write-Host ('Claude Code in this session: qwen at ' + $url)
if ($Launch) { & claude @ClaudeArguments }
